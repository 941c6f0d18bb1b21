"""What stands behind the numbers: the machine, the versions, the specs."""

import json

from paceline.exhibits.background import background, machine
from tests.made_runs import made


def found(*runs) -> dict[str, str]:
    return dict(machine(runs).cells())


def put(run, **seen):
    """Have a run see another machine."""
    run.folder.environment.write_text(json.dumps(seen))
    return run


def test_every_spec_is_there_as_it_was_given(tmp_path):
    runs = {"a": made(tmp_path, "ring"), "b": made(tmp_path, "single", num_workers=1)}
    table, *specs = background(runs)
    assert table.name == "machine"
    assert [each.title for each in specs] == ["Spec: a", "Spec: b"]
    assert [each.text for each in specs] == [run.folder.spec.read_text() for run in runs.values()]


def test_runs_of_one_spec_share_it(tmp_path):
    runs = {f"seed {number}": made(tmp_path, "ring") for number in range(6)}
    (spec,) = background(runs)[1:]
    assert spec.title == "Spec: seed 0, seed 1, seed 2, seed 3, and 2 more"


def test_machines_that_differ_are_all_told(tmp_path):
    first = put(made(tmp_path), hostname="a", kernel="6.1", captured_at_utc="2026-11-16T10")
    second = put(made(tmp_path), hostname="b", kernel="6.1", captured_at_utc="2026-11-16T09")
    told = found(first, second)
    assert told["machine"] == "a; b"
    assert told["kernel"] == "6.1"
    assert told["when"] == "2026-11-16T09 to 2026-11-16T10"


def test_what_is_not_known_is_left_out(tmp_path):
    run = put(made(tmp_path), cpu=None)
    run.folder.spec.unlink()
    assert set(found(run)) == {"cluster"}
    assert background({"a": run})[1].text == "# spec.toml cannot be read"
    assert background({}) == ()
