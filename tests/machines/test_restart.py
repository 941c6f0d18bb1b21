"""`on_failure=restart` on hosts: agents outlive an attempt; the next begins with what was kept."""

import json
from pathlib import Path

import pytest

from paceline.store.runs import all_runs
from tests.machines.hosts import Hosts
from tests.machines.losses import PATIENCE_S, wait_until
from tests.machines.runs import assert_nothing_is_left, over_ssh

pytestmark = pytest.mark.thorough
ASKED = ("--strategy", "ring", "--on-failure", "restart", "--checkpoint-every", "1s")


def worker_of(hosts: Hosts, name: str) -> list[int]:
    root = Path(f"/proc/{hosts.pid(name)}/root/proc")
    names = {pid: root.joinpath(str(pid), "comm") for pid in hosts.processes(name)}
    return [pid for pid, comm in names.items() if comm.read_text().startswith("pace-worker")]


def test_a_worker_that_is_killed_has_all_started_again_from_a_checkpoint(hosts, folder):
    driver = hosts.start("a", over_ssh(*ASKED, "--seconds", 15, "--out", folder))
    wait_until(lambda: [*folder.glob("*/checkpoints/step-*/checkpoint.json")])
    (pid,) = worker_of(hosts, "b")
    hosts.kill_process("b", pid)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, told
    first, last = sorted(all_runs(folder), key=lambda run: run.path.name)
    result = json.loads((last.path / "result.json").read_text())
    assert result["status"] == "finished"
    assert result["attempts"] == [first.path.name]
    (lost,) = result["disturbances"]
    assert lost["who"] == "worker1"
    assert 0 < lost["from_step"] <= lost["lost_step"] < result["global_steps"]
    assert_nothing_is_left(hosts)
