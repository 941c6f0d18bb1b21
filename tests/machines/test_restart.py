"""`on_failure=restart` on hosts: agents outlive an attempt, unless their host is lost."""

import json
from pathlib import Path

import pytest

from paceline.store.runs import all_runs
from tests.machines.hosts import Hosts, why_not
from tests.machines.losses import PATIENCE_S, wait_until
from tests.machines.runs import assert_nothing_is_left, over_ssh

pytestmark = pytest.mark.thorough
ASKED = ("--strategy", "ring", "--on-failure", "restart", "--checkpoint-every", "1s")


@pytest.fixture
def hosts(tmp_path):
    """Hosts of a test's own: one of them does not survive it."""
    refused = why_not()
    if refused:
        pytest.skip(refused)
    with Hosts(["a", "b", "c"], tmp_path) as made:
        yield made


def workers_on(hosts: Hosts, name: str) -> list[int]:
    """Give the processes of a host that are workers."""
    root = Path(f"/proc/{hosts.pid(name)}/root/proc")
    names = {pid: root.joinpath(str(pid), "comm") for pid in hosts.processes(name)}
    return [pid for pid, comm in names.items() if comm.read_text().startswith("pace-worker")]


def has_checkpoint(hosts: Hosts) -> bool:
    return any(hosts.folder.glob("runs/*/checkpoints/step-*/checkpoint.json"))


def test_a_worker_that_is_killed_has_all_started_again_from_a_checkpoint(hosts):
    driver = hosts.start("a", over_ssh(*ASKED, "--seconds", 15))
    wait_until(lambda: has_checkpoint(hosts))
    (pid,) = workers_on(hosts, "b")
    hosts.kill_process("b", pid)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, told
    first, last = all_runs(hosts.folder / "runs")
    result = json.loads((last.path / "result.json").read_text())
    assert result["status"] == "finished"
    assert result["attempts"] == [first.path.name]
    (lost,) = result["disturbances"]
    assert lost["who"] == "worker1"
    assert 0 < lost["from_step"] <= lost["lost_step"] < result["global_steps"]
    assert_nothing_is_left(hosts)


def test_a_host_that_is_lost_and_does_not_come_back_ends_the_run(hosts):
    driver = hosts.start("a", over_ssh(*ASKED, "--seconds", 300, "cluster.join_s=10"))
    wait_until(lambda: has_checkpoint(hosts))
    hosts.kill("b")
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    assert "(b)" in told
    runs = [*all_runs(hosts.folder / "runs")]
    assert len(runs) == 2
    assert all(run.is_sealed for run in runs)
    assert_nothing_is_left(hosts)
