"""Each cell of the table of what survives: real processes are killed, and the run finishes."""

import dataclasses
import os
from pathlib import Path

import pytest

import paceline
from paceline.engine.origin import Origin
from paceline.errors import SeatFailed
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.checkpoints import newest
from paceline.store.runs import RunDir
from paceline.testing.sharing import shared_zygote
from tests.sharing import run

ALL = ("ring", "ps-async", "ps-ssp", "ps-sync")


def carried_out(
    out: Path, strategy: object, fault: object, origin: Origin | None = None, **fields: object
) -> Result:
    spec = RunSpec.from_table(
        {
            "workload": {"name": "logistic-mnist", "subset": "tenth"},
            "strategy": strategy,
            "num_workers": 3,
            "seconds": 2.5,
            "fault": fault,
            **fields,
        }
    )
    quiet = paceline.Record(tensorboard=False, monitor=False)
    return run(dataclasses.replace(spec, record=quiet), out=out, origin=origin)


@pytest.mark.parametrize("strategy", ALL)
def test_the_others_go_on_without_a_worker_that_is_killed(strategy: str, tmp_path: Path):
    result = carried_out(tmp_path, strategy, "kill:worker1@0.5s")
    assert result.status == "finished"
    (noted,) = result.disturbances
    assert noted.reason == "killed by signal 9 (SIGKILL)"
    assert noted.updated_s is not None
    assert noted.back_s is None
    by_name = {each.name: each for each in result.workers}
    assert by_name["worker1"].train_s < 2.0 < by_name["worker0"].train_s
    assert result.goodput is not None
    assert result.goodput < 0.9
    # No push of those that live is lost. What the killed one made after its last row is not known.
    survivors = [by_name[each].worker_steps for each in ("worker0", "worker2")]
    if strategy in ("ps-async", "ps-ssp"):
        assert result.servers[0].updates >= sum(survivors)


@pytest.mark.parametrize(
    "strategy",
    # The ring ends with an error at the first step after which its workers differ in a bit.
    [{"name": "ring", "check_every": 1}, {"name": "ps-sync"}, {"name": "ps-ssp"}],
    ids=lambda each: each["name"],
)
def test_a_worker_that_is_started_again_takes_part(strategy: dict[str, object], tmp_path: Path):
    fields = {"eval_every": 200, "checkpoint_every": 50}  # it may come at a gate, too
    fields["optimizer"] = {"name": "sgd", "lr": 0.01, "momentum": 0.9}
    result = carried_out(tmp_path, strategy, "restart:worker1@0.5s+0.2s", seconds=9, **fields)
    assert result.status == "finished"
    assert not any("had not copied" in warning for warning in result.warnings)
    (noted,) = result.disturbances
    assert noted.back_s is not None
    assert noted.updated_s < noted.back_s  # nobody waited for it
    assert result.workers[1].worker_steps > 0


@pytest.mark.parametrize(
    "strategy", [{"name": "ring", "check_every": 1}, {"name": "ps-async"}], ids=lambda e: e["name"]
)
def test_a_late_worker_trains_with_the_others_from_then_on(
    strategy: dict[str, object], tmp_path: Path
):
    result = carried_out(tmp_path, strategy, "late:worker2@0.5s", seconds=6)
    assert result.status == "finished"
    (noted,) = result.disturbances
    assert 0.5 <= noted.struck_s <= noted.started_s < noted.back_s < 6
    assert 1 - noted.back_s / (3 * result.train_s) == pytest.approx(result.goodput, abs=0.01)
    rows = paceline.load(result).rows()
    first_s = {str(seat[0]): part["time_s"].min() for seat, part in rows.group_by("seat")}
    assert max(first_s["worker0"], first_s["worker1"]) < noted.started_s <= first_s["worker2"]
    first, _, late = (each.worker_steps for each in result.workers)
    assert late > 0
    assert strategy["name"] == "ps-async" or late < first  # who waits for none may be quicker
    if result.servers:  # each push is an update, of whomever it is
        assert result.servers[0].updates == sum(each.worker_steps for each in result.workers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make nodes with links of their own")
@pytest.mark.parametrize(
    "strategy",
    [
        "ring",
        "ps-sync",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("ps-async", "ps-ssp")),
    ],
)
def test_a_worker_whose_link_is_cut_comes_back_as_new(strategy: str, tmp_path: Path):
    cluster = {"name": "emulated", "link": "1gbit"}
    result = carried_out(
        tmp_path, strategy, "cut:node1@1s+7s", seconds=20, cluster=cluster, eval_every=500
    )
    assert result.status == "finished"
    given_up = [each for each in result.disturbances if each.known_s is not None]
    assert {each.who for each in given_up} == {"worker1"}
    assert given_up[0].fault == "cut:node1@1s+7s"
    assert given_up[0].updated_s is not None
    assert given_up[-1].back_s is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make nodes with links of their own")
def test_a_strategy_that_needs_every_worker_ends_when_a_link_is_cut(tmp_path: Path):
    cluster = {"name": "emulated", "link": "1gbit"}
    with pytest.raises(SeatFailed, match="worker"):
        carried_out(tmp_path, "ddp", "cut:node1@1s+30s", seconds=25, cluster=cluster)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make nodes with links of their own")
def test_where_nothing_is_exchanged_a_link_that_is_cut_costs_nothing(tmp_path: Path):
    cluster = {"name": "emulated", "link": "1gbit"}
    result = carried_out(tmp_path, "solo", "cut:node1@0.5s+7s", seconds=9, cluster=cluster)
    assert result.status == "finished"
    assert not any(each.known_s for each in result.disturbances)


def test_of_several_synchronous_servers_none_may_die(tmp_path: Path):
    strategy = {"name": "ps-sync", "servers": 2}
    with pytest.raises(SeatFailed, match="server1"):
        carried_out(tmp_path, strategy, "kill:server1@0.3s", seconds=20)


def test_two_of_three_may_die_at_once(tmp_path: Path):
    result = carried_out(tmp_path, "ring", ["kill:worker0@0.5s", "kill:worker2@0.5s"])
    assert result.status == "finished"
    assert {each.who for each in result.disturbances} == {"worker0", "worker2"}


@pytest.mark.parametrize("strategy", ALL)
def test_below_min_workers_what_is_left_is_kept_and_goes_on_from_there(
    strategy: str, tmp_path: Path
):
    with pytest.raises(SeatFailed, match=r"2 of at least 3 workers are left \(min_workers\)"):
        carried_out(tmp_path, strategy, "kill:worker1@step=30", min_workers=3, seconds=60)
    parent = paceline.load("last", out=tmp_path).result
    assert parent.num_checkpoints == 1
    checkpoint, _ = newest(RunDir(Path(parent.run)))
    assert {"worker0", "worker2"} <= checkpoint.manifest.seats.keys()
    assert checkpoint.progress >= 30
    seconds = checkpoint.manifest.time_s + 0.5
    result = paceline.resume(out=tmp_path, zygote=shared_zygote(), seconds=seconds)
    assert (result.status, result.parent_step) == ("finished", checkpoint.progress)
    assert len([each for each in result.workers if each.worker_steps]) == 3
    assert any("from a checkpoint of 2" in each for each in result.warnings)


def test_a_worker_that_was_stopped_for_too_long_comes_back_as_new(tmp_path: Path):
    fault = "stop:worker1@0.5s+3s"
    result = carried_out(tmp_path, "ps-async", fault, seconds=8, detect_s=1)
    assert result.status == "finished"
    (noted,) = result.disturbances
    assert noted.reason is not None
    assert noted.reason.startswith("stopped (SIGSTOP)")
    assert noted.back_s is not None


def test_a_worker_of_a_resumed_run_is_started_again(tmp_path: Path):
    fields = {"checkpoint_every": 20, "on_failure": "replace"}
    parent = carried_out(tmp_path, "ring", [], seconds=1, **fields)
    checkpoint, _ = newest(RunDir(Path(parent.run)))
    origin = Origin(paceline.load(parent).stored, checkpoint)
    fault = f"restart:worker1@{checkpoint.manifest.time_s + 0.5:.1f}s+0.2s"
    result = carried_out(tmp_path, "ring", fault, origin=origin, seconds=7, **fields)
    assert result.status == "finished"
    assert result.disturbances[-1].back_s is not None


def test_a_run_that_a_fault_has_ended_can_be_finished(tmp_path: Path):
    with pytest.raises(SeatFailed, match="server0"):
        carried_out(tmp_path, "ps-sync", "kill:server0@1s", seconds=2, checkpoint_every=20)
    result = paceline.resume(out=tmp_path, zygote=shared_zygote())
    assert result.status == "finished"
    assert result.disturbances == ()


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("lost", ["worker1", "worker2"])
def test_those_that_were_left_can_be_resumed_as_so_many(strategy: str, lost: str, tmp_path: Path):
    fields = {"checkpoint_every": 20, "on_failure": "go-on"}
    parent = carried_out(tmp_path, strategy, f"kill:{lost}@0.5s", seconds=2.5, **fields)
    checkpoint, _ = newest(RunDir(Path(parent.run)))
    assert lost not in checkpoint.manifest.seats
    origin = Origin(paceline.load(parent).stored, checkpoint)
    result = carried_out(tmp_path, strategy, [], origin, num_workers=2, seconds=4, **fields)
    assert result.status == "finished"


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize(
    "fault", ["late:worker2@0.5s", "stop:worker1@0.5s+1s", "slow:worker1x4@0.5s+1s"]
)
def test_late_stopped_and_slow_workers(strategy: str, fault: str, tmp_path: Path):
    result = carried_out(tmp_path, strategy, fault, seconds=6)
    assert result.status == "finished"


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ALL)
def test_random_kills(strategy: str, tmp_path: Path):
    fault = "random:mtbf=1s,restart=0.3s"
    result = carried_out(tmp_path, strategy, fault, seconds=20, eval_every=500)
    assert result.status == "finished"
    assert len(result.disturbances) > 5
