"""Carrying a study out: every run once, whatever happens in between."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.errors import StoreError
from paceline.store.runs import RunDir
from paceline.studies.executor import carry_out, gathered
from paceline.studies.folder import StudyDir
from paceline.studies.grid import Grid
from paceline.studies.here import settle

GRID = """
title = "a small one"
reports = "none"
[claims]
[common]
workload.name = "logistic-mnist"
workload.subset = "tenth"
cluster.name = "inline"
strategy.name = "single"
worker_steps = 5
eval_samples = 100
record.tensorboard = false
record.model = false
[[runs]]
group = "batch"
each = { batch = [5, 10, 20] }
seeds = 2
"""
PROGRAM = """
import sys
from pathlib import Path
from tests.studies.test_executor import settled
from paceline.studies.executor import carry_out
from paceline.studies.folder import StudyDir
print("ready", flush=True)
carry_out(settled(), StudyDir(Path(sys.argv[1])), lambda standing: print(standing.name, flush=True))
"""


def settled(text: str = GRID):
    return settle(Grid.parse("small", text).plan("quick"))


def keys(folder: StudyDir) -> list[str]:
    return sorted(folder.contents().finished)


def test_what_is_finished_is_not_repeated(tmp_path):
    folder = StudyDir(tmp_path)
    first = carry_out(settled()[:2], folder)
    assert len(first.all_runs) == 2
    told = []
    evidence = carry_out(settled(), folder, told.append)
    assert [each.name for each in told if each.result] == [
        each.planned.name for each in settled()[2:]
    ]
    assert len(evidence.all_runs) == len(list(folder.runs.iterdir())) == 6
    assert {run.name for run in first.all_runs} <= {run.name for run in evidence.all_runs}
    assert told[-1].num_done == told[-1].num_all == 6
    assert told[-1].left_s == 0
    carry_out(settled(), folder, lambda _: pytest.fail("nothing was left to do"))


def test_a_run_that_cannot_be_made_does_not_stop_the_others(tmp_path):
    broken = GRID.replace("batch = [5, 10, 20]", "batch = [5, 100_000]").replace("seeds = 2", "")
    evidence = carry_out(settled(broken), StudyDir(tmp_path))
    assert [each.result.batch_size for each in evidence.all_runs] == [5]
    assert "is more than the 6000 rows" in evidence.missing["batch-100000-0"]


def test_a_run_whose_seal_cannot_be_read_is_carried_out_again_and_kept(tmp_path):
    folder = StudyDir(tmp_path)
    (run,) = carry_out(settled()[:1], folder).all_runs
    run.folder.result.write_text("{")
    (again,) = carry_out(settled()[:1], folder).all_runs
    assert {each.name for each in folder.runs.iterdir()} == {run.name, again.name}
    assert again.name != run.name


def test_a_finished_run_whose_spec_cannot_be_read_any_more_is_kept(tmp_path):
    folder = StudyDir(tmp_path)
    (run,) = carry_out(settled()[:1], folder).all_runs
    spec = run.folder.spec.read_text()
    run.folder.spec.write_text(spec.replace("worker_steps", "a_name_it_had_before"))
    carry_out(settled()[:2], folder)
    assert run.folder.is_sealed
    assert len(list(folder.runs.iterdir())) == 3
    run.folder.spec.write_text(spec)
    for other in set(folder.runs.iterdir()) - {run.folder.path}:
        shutil.rmtree(other)
    (found,) = carry_out(settled()[:1], folder).all_runs
    assert found.name == run.name


def test_only_what_the_study_left_of_the_very_run_is_removed(tmp_path):
    folder = StudyDir(tmp_path)
    first, second = settled()[:2]
    left = "20261116-000000-logistic-mnist-single-"
    specs = {
        f"{left}000001": first.spec.toml(),  # of the run that is carried out: an earlier attempt
        f"{left}000002": second.spec.toml(),
        f"{left}000003": None,
        "my-notes": None,
        "kept-by-hand": first.spec.toml(),
    }
    for name, spec in specs.items():
        (folder.runs / name).mkdir(parents=True)
        (folder.runs / name / "notes.txt").write_text("mine")
        if spec is not None:
            RunDir(folder.runs / name).spec.write_text(spec)
    (run,) = carry_out([first], folder).all_runs
    there = {each.name for each in folder.runs.iterdir()}
    assert there == {*specs, run.name} - {f"{left}000001"}


def test_what_failed_before_is_told_and_not_counted_as_waiting(tmp_path):
    folder = StudyDir(tmp_path)
    (run,) = carry_out(settled()[:1], folder).all_runs
    told = json.loads(run.folder.result.read_text()) | {"status": "failed", "reason": "it broke"}
    run.folder.result.write_text(json.dumps(told))
    evidence = gathered(Grid.parse("small", GRID).plan("quick"), folder)
    assert evidence.runs == {}
    assert evidence.missing == {settled()[0].planned.name: "it broke"}
    assert evidence.num_planned == len(settled()) - 1


def test_only_one_process_carries_a_study_out(tmp_path):
    folder = StudyDir(tmp_path)
    with folder.held(), pytest.raises(StoreError, match="another process"):
        carry_out(settled(), folder)


def test_a_study_killed_at_random_moments_ends_with_every_run_once(tmp_path):
    folder = StudyDir(tmp_path / "study")
    seed = time.time_ns()
    print("seed", seed)  # noqa: T201 - shown where it fails
    source = random.Random(seed)
    for _ in range(3):
        kill_after(source.randint(1, 6), source.random() * 0.3, folder.path)
    left = keys(folder)
    evidence = carry_out(settled(), folder)
    assert keys(folder) == sorted(each.key for each in settled())
    assert set(left) <= set(keys(folder))
    # One that was killed before its spec was written is nobody's: it stays.
    paths = [path for path in folder.runs.iterdir() if RunDir(path).spec.exists()]
    assert len(paths) == len(evidence.all_runs) == 6
    assert all(RunDir(path).is_sealed for path in paths)


def kill_after(num_lines: int, seconds: float, folder: Path) -> None:
    """Start the study anew and end it the hard way, some lines and a moment later."""
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(num_lines):
            process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
