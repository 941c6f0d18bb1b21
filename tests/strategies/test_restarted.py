"""`on_failure=restart`: real processes are killed, all are started again, and nothing is lost."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.engine.progress import RunView
from paceline.errors import Interrupted, SeatFailed
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.runs import RunDir, all_runs
from tests.sharing import run


def carried_out(out: Path, strategy: str = "ddp", **fields: Any) -> Result:
    how = {each: fields.pop(each) for each in ("watch",) if each in fields}
    spec = RunSpec.from_table(
        {
            "workload": {"name": "logistic-mnist", "subset": "tenth"},
            "strategy": strategy,
            "num_workers": 1 if strategy == "single" else 2,
            "steps": 300,
            "on_failure": "restart",
            "checkpoint_every": 50,
            **fields,
        }
    )
    quiet = paceline.Record(tensorboard=False, monitor=False)
    return run(dataclasses.replace(spec, record=quiet), out=out, **how)


def model_of(result: Result) -> bytes:
    return RunDir(Path(result.run)).model.read_bytes()


@pytest.mark.parametrize("strategy", ["ddp", "single", "ring", "ps-sync"])
def test_after_a_kill_the_result_is_to_the_bit_what_it_would_have_been(
    strategy: str, tmp_path: Path
):
    # So late that a checkpoint has been written, however quick a step is.
    undisturbed = carried_out(tmp_path, strategy, steps=1500)
    result = carried_out(tmp_path, strategy, steps=1500, fault="kill:worker0@step=1200")
    assert result.status == "finished"
    assert model_of(result) == model_of(undisturbed)
    assert result.global_steps == undisturbed.global_steps == 1500
    assert (result.worker_steps, result.samples) == (undisturbed.worker_steps, undisturbed.samples)
    assert paceline.load(result).rows()["count"].sum() == result.worker_steps
    (noted,) = result.disturbances
    assert noted.reason == "killed by signal 9 (SIGKILL)"
    assert noted.from_step == result.parent_step
    assert noted.lost_step is not None
    assert noted.from_step <= noted.lost_step
    assert noted.from_step >= 50
    if noted.lost_step < 1500:
        assert noted.struck_s <= noted.started_s <= noted.back_s <= noted.updated_s
        assert result.goodput is not None
        assert result.goodput < 1
    (attempt,) = result.attempts
    assert result.parent == attempt
    parent = paceline.load(attempt, out=tmp_path).result
    assert parent.status == "failed"
    assert "all seats are started again" in parent.warnings[-1]


def test_several_losses_are_one_story_and_no_fault_strikes_twice(tmp_path: Path):
    faults = ["kill:worker0@step=80", "kill:worker1@step=160"]
    result = carried_out(tmp_path, fault=faults, steps=400)
    assert (result.status, result.global_steps) == ("finished", 400)
    assert [each.fault for each in result.disturbances] == faults
    assert len(result.attempts) == 2
    assert paceline.load(result).rows()["count"].sum() == result.worker_steps
    assert all(each.lost_step is not None for each in result.disturbances)


def test_more_losses_than_allowed_end_it_and_the_reason_says_so(tmp_path: Path):
    with pytest.raises(SeatFailed) as caught:
        carried_out(tmp_path, fault="random:mtbf=0.2s", max_restarts=1, steps=100_000)
    result = caught.value.result
    assert "had been started again 1x, the most allowed (max_restarts)" in result.reason
    assert len(result.attempts) == 1


def test_without_checkpoints_it_begins_anew_and_says_so_before(tmp_path: Path):
    result = carried_out(tmp_path, fault="kill:worker1@step=40", checkpoint_every=None)
    assert (result.status, result.parent_step) == ("finished", 0)
    assert result.global_steps == 300
    assert any("a lost seat starts it from the beginning" in each for each in result.warnings)
    assert any("has no checkpoint to resume from" in each for each in result.warnings)


def test_a_server_that_is_killed_too(tmp_path: Path):
    result = carried_out(tmp_path, "ps-sync", fault="kill:server0@step=120")
    assert (result.status, result.global_steps) == ("finished", 300)
    assert [each.who for each in result.disturbances] == ["server0"]


@pytest.mark.thorough
def test_a_suspended_worker_of_ddp_is_given_up_and_all_start_again(tmp_path: Path):
    result = carried_out(tmp_path, fault="stop:worker1@step=120+60s", detect_s=1.0)
    assert (result.status, result.global_steps) == ("finished", 300)
    (noted,) = result.disturbances
    assert noted.known_s is not None


def test_ctrl_c_while_it_is_started_again_is_the_end(tmp_path: Path):
    def watch(view: RunView) -> None:
        if "starting again" in (view.note or ""):
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="while all seats were started again") as caught:
        carried_out(tmp_path, fault="kill:worker1@step=80", watch=watch)
    assert caught.value.result.status == "failed"
    assert len(list(all_runs(tmp_path))) == 1
