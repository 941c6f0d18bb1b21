"""Every reader of stored files, a few hundred damaged files each; `make fuzz` has millions."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import StoreError
from paceline.store.stored import making_sense
from tests.stored_fuzz import Harm, Target, fuzz, judged, targets, warm_up

NAMES = (
    *("spec", "result", "shown", "facts", "rows", "nodes", "environment", "parquet", "rates"),
    *("notes", "study", "converted", "starts"),
)
# What JSON can hold, and the odd values that a schema must not let through.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FEW = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> dict[str, Target]:
    made = targets(tmp_path_factory.mktemp("stored"))
    for target in made.values():
        warm_up(target)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(readers, name: str):
    fuzz(readers[name], 100, seed=7)
    readers[name].path.write_bytes(readers[name].good)


@pytest.mark.parametrize("name", ["result", "facts", "environment", "notes", "study", "converted"])
@FEW
@given(data=st.data())
def test_no_value_in_any_place_is_more_than_refused(readers, name: str, data):
    target = readers[name]
    table = json.loads(target.good)
    place = table["facts"] if name == "facts" else table
    key = data.draw(st.sampled_from(sorted(place)) | st.text())
    place[key] = data.draw(VALUES)
    judged(target, json.dumps(table).encode("utf-8", "surrogatepass"))


def test_every_name_is_of_a_reader(readers):
    assert set(NAMES) == set(readers)


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder / "new").write_text("x"),
        lambda folder: __import__("antigravity"),
        lambda folder: (folder / "file").rename(folder / "other"),
        lambda folder: exec("1 + 1"),
    ],
)
def test_a_reader_that_does_more_than_read_is_noticed(tmp_path: Path, act):
    (tmp_path / "file").touch()
    target = Target(tmp_path / "file", lambda: act(tmp_path), b"")
    with pytest.raises(Harm):
        judged(target, b"")


def test_figures_that_do_not_go_together_are_our_own_error():
    with pytest.raises(StoreError, match="do not go together"), making_sense("a run"):
        assert 1 / 0
