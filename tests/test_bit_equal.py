"""Results stay what they were, to the bit: short runs against hashes that were written down."""

import json
from pathlib import Path

import bit_equal
import numpy as np
import pytest

import paceline
from tests.sharing import run

FOUND = {"single, logistic": {"parameters": "12", "losses": "34"}}


@pytest.fixture(scope="module")
def recorded():
    """Hashes for this torch and this processor."""
    known = json.loads(bit_equal.RECORDED.read_text())
    if bit_equal.key() not in known:
        keys = "; ".join(known)
        pytest.skip(f"no hashes for {bit_equal.key()} (`make hashes` writes them): only {keys}")
    return known[bit_equal.key()]


@pytest.mark.parametrize("name", bit_equal.CASES)
def test_a_run_comes_to_what_it_came_to_before(name, recorded, tmp_path):
    spec = paceline.RunSpec.from_table(bit_equal.CASES[name])
    assert bit_equal.digests(Path(run(spec, out=tmp_path).run)) == recorded[name]


def test_every_key_has_every_run():
    for found in json.loads(bit_equal.RECORDED.read_text()).values():
        assert found.keys() == bit_equal.CASES.keys()


def test_a_hash_is_another_for_the_last_bit_of_a_value_its_type_and_its_shape():
    ones = np.ones((2, 3), np.float32)
    changed = ones.copy()
    changed[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    others = (changed, ones.view(np.int32), ones.reshape(3, 2))
    hashes = {bit_equal.hashed({"weight": each}) for each in (ones, *others)}
    assert len(hashes | {bit_equal.hashed({"bias": ones})}) == 5


def test_what_differs_is_named():
    before = {"parameters": "12", "losses": "34", "metrics": "56"}
    assert bit_equal.differences(before, before) == ""
    assert bit_equal.differences(before, before | {"losses": "3"}) == "losses"


def test_hashes_that_were_written_down_stay_unless_one_says_so(tmp_path, capsys):
    path = tmp_path / "hashes.json"
    assert bit_equal.record("torch 1", FOUND, path, again=False) == 0
    assert bit_equal.record("torch 2", FOUND, path, again=False) == 0
    assert bit_equal.record("torch 2", FOUND, path, again=False) == 0
    assert bit_equal.record("torch 2", {}, path, again=False) == 1
    assert "has OTHER hashes for torch 2; they stay" in capsys.readouterr().out
    assert json.loads(path.read_text()) == {"torch 1": FOUND, "torch 2": FOUND}
    assert bit_equal.record("torch 2", {}, path, again=True) == 0
    assert json.loads(path.read_text()) == {"torch 1": FOUND, "torch 2": {}}
