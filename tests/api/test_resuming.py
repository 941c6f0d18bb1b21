"""Runs that go on: what comes of them is what would have been."""

import hashlib
import itertools
import json
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import paceline
from paceline.api.resuming import origin_of
from paceline.comm.allreduce.choosing import Choice
from paceline.engine import driver
from paceline.engine.origin import Origin
from paceline.errors import SpecError, StoreError
from paceline.store.checkpoints import folders, opened
from paceline.store.runs import RunDir
from paceline.testing import Moons
from paceline.training.optim import Adam

STEPS = 23
RECORD = paceline.Record(tensorboard=False, monitor=False)


def spec_of(strategy, **fields):
    given = {
        "workload": Moons(rows=200),
        "strategy": strategy,
        "cluster": paceline.Inline(),
        "num_workers": 1 if strategy == paceline.Single() else 2,
        "batch": 4,
        "optimizer": Adam(lr=0.01),
        "steps": STEPS,
        "eval_every": 4,
        "checkpoint_every": 4,
        "checkpoint_keep": 10,
        "record": RECORD,
    }
    return paceline.RunSpec(**(given | fields))


def model_of(result):
    return hashlib.sha256((Path(result.run) / "model.safetensors").read_bytes()).hexdigest()


def kept(result):
    """The checkpoints of a run, oldest first: the first of all, and those that were in time."""
    return [opened(each) for each in reversed(folders(RunDir(Path(result.run))))]


def went_on(parent, spec, out, checkpoint):
    """Go on from one of the checkpoints of a run, though it has finished."""
    return driver.run(spec, out=out, origin=Origin(paceline.load(parent).stored, checkpoint))


IN_STEP = [
    paceline.Single(),
    paceline.Ring(bucket_bytes=100),
    paceline.PsSync(),
    paceline.PsSync(servers=2, chunk_bytes=100),
]


@pytest.mark.parametrize("strategy", IN_STEP, ids=str)
def test_to_the_bit_what_it_would_have_been(strategy, tmp_path):
    spec = spec_of(strategy)
    whole = paceline.run(spec, out=tmp_path)
    assert kept(whole)[0].progress == 4
    for checkpoint in {each.progress: each for each in (kept(whole)[0], kept(whole)[-1])}.values():
        result = went_on(whole, spec, tmp_path, checkpoint)
        assert model_of(result) == model_of(whole)
        assert result.parent == Path(whole.run).name
        assert result.parent_step == checkpoint.progress
        assert result.global_steps == STEPS
        assert (result.worker_steps, result.samples) == (whole.worker_steps, whole.samples)
        assert (result.final_loss, result.test_metrics) == (whole.final_loss, whole.test_metrics)
        rows, evaluations = paceline.load(result).rows(), paceline.load(result).evaluations()
        assert rows["count"].sum() == whole.worker_steps
        assert evaluations.drop("time_s").equals(paceline.load(whole).evaluations().drop("time_s"))
        assert result.train_s > checkpoint.manifest.time_s


def test_a_run_that_goes_on_does_not_choose_its_all_reduce_again(tmp_path, monkeypatch):
    def choose(algorithm):
        choice = Choice(algorithm=algorithm, round_trip_s=0.001, whole_s=0.5)
        monkeypatch.setattr("paceline.comm.allreduce.forming.choose", lambda *_: choice)

    # Of five workers, halving adds in another order, and so to other bits.
    spec = spec_of(paceline.Ring(algorithm="auto"), num_workers=5)
    choose("halving")
    whole = paceline.run(spec, out=tmp_path)
    choose("ring")
    result = went_on(whole, spec, tmp_path, kept(whole)[0])
    assert model_of(result) == model_of(whole)
    assert {each.algorithm for each in result.workers} == {"halving"}
    other = paceline.run(spec, out=tmp_path)
    assert {each.algorithm for each in other.workers} == {"ring"}
    assert model_of(other) != model_of(whole)
    given = paceline.run(spec_of(paceline.Ring(algorithm="halving"), num_workers=5), out=tmp_path)
    assert model_of(given) == model_of(whole)
    assert not spec.strategy.repeats
    assert given.strategy == "ring"


@pytest.mark.parametrize("strategy", [paceline.Single(), paceline.PsSync()], ids=str)
def test_what_is_resumed_twice_has_the_rows_of_all_three(strategy, tmp_path):
    spec = spec_of(strategy)
    first = paceline.run(spec, out=tmp_path)
    second = went_on(first, spec, tmp_path, kept(first)[0])
    checkpoint = kept(second)[-1]
    assert checkpoint.progress > second.parent_step
    third = went_on(second, spec, tmp_path, checkpoint)
    assert paceline.load(third).rows()["count"].sum() == third.worker_steps == first.worker_steps
    assert model_of(third) == model_of(first)


@pytest.mark.parametrize(
    "strategy", [paceline.PsAsync(servers=2), paceline.PsSsp(staleness=1), paceline.Solo()], ids=str
)
def test_where_a_run_is_never_the_same_its_steps_are_still_counted_once(strategy, tmp_path):
    length = {"steps": None, "worker_steps": 12} if strategy == paceline.Solo() else {}
    spec = spec_of(strategy, **length)
    whole = paceline.run(spec, out=tmp_path)
    result = went_on(whole, spec, tmp_path, kept(whole)[0])
    assert (result.global_steps, result.worker_steps) == (whole.global_steps, whole.worker_steps)
    assert paceline.load(result).rows()["count"].sum() == whole.worker_steps
    assert all(each.updates == STEPS for each in result.servers)
    if strategy.repeats:
        assert model_of(result) == model_of(whole)


GROUPS = [paceline.Ring(), paceline.Solo(), paceline.PsSync(servers=2), paceline.PsSsp(staleness=1)]


@pytest.mark.parametrize("strategy", GROUPS, ids=str)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_another_number_of_workers_goes_on_and_says_that_it_is_not_the_same(
    strategy, num_workers, tmp_path
):
    length = {"steps": None, "epochs": 1} if strategy == paceline.Solo() else {}
    spec = spec_of(strategy, **length)
    whole = paceline.run(spec, out=tmp_path)
    other = spec_of(strategy, num_workers=num_workers, **length)
    checkpoint = kept(whole)[0]
    result = went_on(whole, other, tmp_path, checkpoint)
    assert result.status == "finished"
    assert result.num_workers == num_workers
    if strategy == paceline.Ring():  # each step of each worker that is still there counts once
        made = checkpoint.progress
        made_by_all = made * min(2, num_workers) + (STEPS - made) * num_workers
        assert result.worker_steps == made_by_all
    said = f"goes on with {num_workers} workers from a checkpoint of 2: the result is not what"
    assert any(said in each for each in result.warnings)
    if strategy != paceline.Solo():
        assert result.global_steps == STEPS


def outlived(checkpoint, *lost):
    """The checkpoint as it would be if these workers had been lost before it."""
    manifest = checkpoint.manifest
    seats = {name: each for name, each in manifest.seats.items() if name not in lost}
    left = manifest.num_workers - len(lost)
    return replace(checkpoint, manifest=replace(manifest, num_workers=left, seats=seats))


@pytest.mark.parametrize(
    "strategy", [paceline.Ring(), paceline.PsSync(), paceline.PsAsync()], ids=str
)
def test_those_that_outlived_another_go_on_by_themselves(strategy, tmp_path):
    """As many as the checkpoint has, and fewer than its run had: rows are dealt anew."""
    whole = paceline.run(spec_of(strategy, num_workers=3), out=tmp_path)
    checkpoint = outlived(kept(whole)[0], "worker2")
    result = went_on(whole, spec_of(strategy, num_workers=2), tmp_path, checkpoint)
    assert (result.status, result.global_steps) == ("finished", STEPS)
    said = "goes on with 2 workers from a checkpoint of 2 of 3: the result is not what"
    assert any(said in each for each in result.warnings)


def failed_with(faults, out):
    """A run of three workers, as if these faults had been asked for and it had failed."""
    spec = spec_of(paceline.Ring(), num_workers=3)
    result = paceline.run(spec, out=out)
    folder = RunDir(Path(result.run))
    table = tomllib.loads(spec.toml()) | {"cluster": {"name": "local"}, "fault": faults}
    folder.spec.write_text(paceline.RunSpec.from_table(table).toml())
    folder.result.write_text(json.dumps(replace(result, status="failed").table()))
    return folder.path


@pytest.mark.parametrize(("others", "left"), [([], []), (["kill:worker1@step=900"],) * 2], ids=str)
def test_a_fault_that_struck_who_is_not_there_any_more_is_left_out(others, left, tmp_path):
    """Else the run could not go on without the worker that it killed."""
    parent = failed_with(["kill:worker2@step=3", *others], tmp_path)
    spec, _ = origin_of(parent, {"num_workers": 2}, tmp_path)
    assert [str(each) for each in spec.fault] == left
    assert spec.when_lost == "go-on"  # as with the fault
    same, _ = origin_of(parent, {}, tmp_path)
    assert [str(each) for each in same.fault] == ["kill:worker2@step=3", *others]


def test_a_fault_that_is_still_to_strike_needs_whom_it_strikes(tmp_path):
    parent = failed_with(["kill:worker2@step=900"], tmp_path)
    with pytest.raises(SpecError, match="no seat worker2"):
        origin_of(parent, {"num_workers": 2}, tmp_path)


def test_every_so_many_seconds(tmp_path):
    spec = spec_of(
        paceline.Ring(), steps=None, seconds=0.6, checkpoint_every="50ms", eval_every=None
    )
    result = paceline.run(spec, out=tmp_path)
    made = [opened(each).manifest.time_s for each in folders(RunDir(Path(result.run)))]
    assert len(made) >= 2
    assert all(before > after for before, after in itertools.pairwise(made))


COMMAND = [sys.executable, "-m", "paceline", "run", "logistic-mnist", "--set"]
COMMAND += ["workload.subset=tenth", "record.tensorboard=false", "record.monitor=false"]
COMMAND += ["--strategy", "ring", "--workers", "2", "--steps", "100000", "--checkpoint-every", "20"]


def test_after_its_driver_was_killed_a_run_goes_on(tmp_path):
    """By its name, as a user would; a damaged checkpoint is told of, and the one before is used."""
    driver_process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + 120
    while not list(tmp_path.glob("*/checkpoints/step-*4?")) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    driver_process.kill()
    driver_process.wait()
    (folder,) = tmp_path.iterdir()
    newer, before = folders(RunDir(folder))
    (newer / "worker1.safetensors").write_bytes(b"torn")
    done = opened(before).progress
    result = paceline.resume("ring", out=tmp_path, steps=done + 30)
    assert (result.status, result.parent, result.parent_step) == ("finished", folder.name, done)
    assert (result.global_steps, result.worker_steps) == (done + 30, 2 * (done + 30))
    assert paceline.load(folder).result.status == "interrupted"
    assert any("worker1.safetensors has 4 bytes" in each for each in result.warnings)
    with pytest.raises(SpecError, match="has finished: there is nothing to resume"):
        paceline.resume(result)


def test_what_cannot_be_resumed_is_said_before_anything_starts(tmp_path):
    spec = spec_of(paceline.Single(), checkpoint_every=None)
    result = paceline.run(spec, out=tmp_path)
    with pytest.raises(SpecError, match="has finished"):
        paceline.resume(result, out=tmp_path)
    with pytest.raises(StoreError, match="no such run"):
        paceline.resume("nothing", out=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("field", "value"), [("steps", 4), ("steps", 3), ("seconds", 1e-6)])
def test_a_length_that_is_made_already_is_refused(field, value, tmp_path):
    spec = spec_of(paceline.Single())
    whole = paceline.run(spec, out=tmp_path)
    origin = Origin(paceline.load(whole).stored, kept(whole)[0])
    shorter = spec_of(paceline.Single(), **{"steps": None, field: value})
    with pytest.raises(SpecError, match=f"^{field} = .* already: give more"):
        origin.check(shorter)
