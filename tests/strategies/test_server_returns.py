"""A server's process is killed in the middle of training: it comes back, and the run learns on."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.engine.origin import Origin
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.checkpoints import newest
from paceline.store.runs import RunDir
from tests.sharing import run
from tests.strategies.test_ps_deaths import pid_of, wait_until

SSP = {"name": "ps-ssp", "staleness": 2}
SYNC = {"name": "ps-sync"}
TWO = {"name": "ps-async", "servers": 2}


def carried_out(
    out: Path, strategy: dict[str, Any], origin: Origin | None = None, **fields: Any
) -> Result:
    spec = RunSpec.from_table(
        {
            "workload": {"name": "logistic-mnist", "subset": "tenth"},
            "strategy": {"snapshot_s": 0.3, **strategy},
            "num_workers": 3,
            **({} if "seconds" in fields else {"worker_steps": 2500}),
            "record": {"tensorboard": False, "monitor": False},
            **fields,
        }
    )
    return run(spec, out=out, origin=origin)


def assert_learnt(result: Result) -> None:
    """As an undisturbed run does in as many steps: 88 %."""
    assert result.status == "finished"
    assert (result.test_accuracy or 0) > 0.84


def all_are_training(folder: Path) -> bool:
    records = list(folder.glob("*/records/worker*.jsonl"))
    return len(records) == 3 and all(each.stat().st_size for each in records)


def assert_counted(result: Result) -> None:
    """No push is left out; one whose answer was under way counts as lost, and is applied again."""
    num_pushes = sum(each.worker_steps for each in result.workers)
    num_lost = sum(each.updates_lost is not None for each in result.disturbances)
    twice = result.servers[0].updates + lost_in(result) - num_pushes
    assert 0 <= twice <= num_lost * (len(result.workers) - 1)


def lost_in(result: Result) -> int:
    return sum(each.updates_lost or 0 for each in result.disturbances)


@pytest.mark.parametrize("strategy", [{"name": "ps-async"}, SSP], ids=lambda each: each["name"])
def test_every_push_is_an_update_once_or_was_lost_and_counted(strategy: Any, tmp_path: Path):
    result = carried_out(tmp_path, strategy, fault="restart:server0@step=600+0.2s")
    assert_learnt(result)
    (noted,) = result.disturbances
    assert noted.reason == "killed by signal 9 (SIGKILL)"
    assert noted.back_s is not None
    assert noted.updated_s is not None
    assert_counted(result)


@pytest.mark.parametrize("strategy", [SYNC, SYNC | {"backup": 1}], ids=str)
def test_synchronous_workers_go_on_from_the_version_of_the_snapshot(strategy: Any, tmp_path: Path):
    result = carried_out(tmp_path, strategy, fault="restart:server0@step=600+0.2s", eval_every=100)
    assert_learnt(result)
    (noted,) = result.disturbances
    assert noted.back_s is not None
    served = result.servers[0]
    num_averaged = 3 - strategy.get("backup", 0)
    num_pushes = sum(each.worker_steps for each in result.workers)
    assert num_averaged * (served.updates + lost_in(result)) <= num_pushes


def test_one_of_two_servers_goes_back_by_itself(tmp_path: Path):
    result = carried_out(tmp_path, TWO, fault="restart:server1@step=600+0.2s")
    assert_learnt(result)
    behind = result.servers[0].updates - result.servers[1].updates
    assert behind == lost_in(result)


def test_several_servers_of_synchronous_workers_go_back_to_one_version(tmp_path: Path):
    strategy = SYNC | {"servers": 2}
    result = carried_out(tmp_path, strategy, fault="restart:server1@step=600+0.2s")
    assert_learnt(result)
    with_it, killed = sorted(result.disturbances, key=lambda each: each.who)
    assert (with_it.who, with_it.reason) == ("server0", "it goes back with server1")
    assert killed.who == "server1"
    versions = {
        text.split("version ")[1].split(":")[0] for text in result.warnings if "from" in text
    }
    assert len(versions) == 1
    assert versions != {"0"}
    assert result.servers[0].updates == result.servers[1].updates
    num_pushes = sum(each.worker_steps for each in result.workers)
    for lost in (with_it, killed):
        assert 3 * (result.servers[0].updates + (lost.updates_lost or 0)) <= num_pushes


def test_a_server_that_never_kept_a_snapshot_begins_with_the_initial_values(tmp_path: Path):
    strategy = SYNC | {"snapshot_s": 60}
    result = carried_out(tmp_path, strategy, fault="restart:server0@step=300+0.1s")
    assert_learnt(result)
    assert lost_in(result) > 0
    assert any("from version 0" in text for text in result.warnings)


def test_one_that_dies_again_and_again_is_waited_for_each_time(tmp_path: Path):
    fault = "random:mtbf=1s,restart=0.1s,who=servers"
    result = carried_out(tmp_path, SSP, fault=fault, seconds=12, eval_every=300)
    assert result.status == "finished"
    assert len(result.disturbances) > 1
    assert_counted(result)


def test_a_server_that_is_killed_by_others_is_replaced(tmp_path: Path):
    killed: list[int] = []

    def kill() -> None:
        wait_until(lambda: all_are_training(tmp_path))
        killed.append(pid_of("server0", tmp_path))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    result = carried_out(tmp_path, SYNC, on_failure="replace")
    thread.join()
    assert_learnt(result)
    assert killed
    assert [each.who for each in result.disturbances] == ["server0"]


@pytest.mark.thorough
def test_on_emulated_nodes_a_server_comes_back_where_it_was(tmp_path: Path):
    cluster = {"name": "emulated", "link": "1gbit"}
    strategy = SYNC | {"placement": "separate"}
    fault = "restart:server0@step=600+0.2s"
    assert_learnt(carried_out(tmp_path, strategy, cluster=cluster, fault=fault))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ps-async", "ps-ssp", "ps-sync"])
def test_workers_and_servers_are_killed_at_random(name: str, tmp_path: Path):
    fault = "random:mtbf=1s,restart=0.2s,who=all"
    fields = {"seconds": 20, "eval_every": 300, "checkpoint_every": 200}
    result = carried_out(tmp_path, {"name": name}, fault=fault, **fields)
    assert result.status == "finished"
    assert {each.who.rstrip("0123456789") for each in result.disturbances} == {"worker", "server"}


def test_a_resumed_run_brings_its_server_back(tmp_path: Path):
    """With no snapshot of its own yet, it goes on from the checkpoint."""
    strategy = SYNC | {"snapshot_s": 60}
    fields = {"checkpoint_every": 50, "on_failure": "replace"}
    parent = carried_out(tmp_path, strategy, **fields, worker_steps=500)
    checkpoint, _ = newest(RunDir(Path(parent.run)))
    origin = Origin(paceline.load(parent).stored, checkpoint)
    fault = f"restart:server0@step={checkpoint.progress + 200}+0.1s"
    result = carried_out(tmp_path, strategy, origin, **fields, fault=fault)
    assert_learnt(result)
    assert any(f"from version {checkpoint.progress:,}" in text for text in result.warnings)
