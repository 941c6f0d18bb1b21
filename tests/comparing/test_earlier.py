"""A comparison that goes on: what was finished counts, what was lost is resumed."""

import dataclasses
import json
from pathlib import Path

import paceline
from paceline.comparing.earlier import Earlier
from paceline.engine.origin import Origin
from paceline.store.stored import StoredRun
from paceline.testing import Moons


def spec_of(**fields):
    record = paceline.Record(tensorboard=False, monitor=False)
    given = {"workload": Moons(rows=100), "cluster": paceline.Inline(), "batch": 4, "steps": 9}
    return paceline.RunSpec(
        **(given | {"record": record, "checkpoint_every": 4} | fields)
    ).checked()


def lost(result: paceline.Result) -> None:
    """Make of a finished run one that was interrupted."""
    path = Path(result.run) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "interrupted"}))


def test_finished_runs_count_once_and_lost_ones_go_on(tmp_path):
    spec, other = spec_of(), spec_of(seed=1)
    finished = paceline.run(spec, out=tmp_path)
    lost(paceline.run(spec, out=tmp_path))
    paceline.run(other, out=tmp_path)
    earlier = Earlier(tmp_path)
    first, second = earlier.take(spec), earlier.take(spec)
    assert isinstance(first, StoredRun)
    assert first.result.run == finished.run
    assert isinstance(second, Origin)
    assert second.checkpoint.progress in (4, 8)
    assert earlier.take(spec) is None


def test_a_run_that_went_on_is_not_counted_twice(tmp_path):
    spec = spec_of()
    parent = paceline.run(spec, out=tmp_path)
    lost(parent)
    child = paceline.resume(parent, out=tmp_path)
    earlier = Earlier(tmp_path)
    taken = earlier.take(spec)
    assert isinstance(taken, StoredRun)
    assert (taken.result.run, taken.result.parent) == (child.run, Path(parent.run).name)
    assert earlier.take(spec) is None


def test_without_a_checkpoint_a_lost_run_is_made_again(tmp_path):
    spec = spec_of(checkpoint_every=None)
    lost(paceline.run(spec, out=tmp_path))
    assert Earlier(tmp_path).take(spec) is None


def test_a_comparison_goes_on_and_makes_only_what_is_missing(tmp_path):
    spec = dataclasses.replace(spec_of(), cluster=paceline.Inline(), threads=1)
    options = {"strategies": ["single", "solo"], "repeat": 2, "out": tmp_path, "steps": None}
    options |= {"worker_steps": 9}
    first = paceline.compare(spec, **options)
    folders = sorted(tmp_path.iterdir())
    lost(paceline.load(folders[-1]).result)
    again = paceline.compare(spec, resume=True, **options)
    new = [each for each in sorted(tmp_path.iterdir()) if each not in folders]
    assert len(new) == 1
    assert paceline.load(new[0]).result.parent == folders[-1].name
    assert len(again.runs) == len(first.runs) == 4
