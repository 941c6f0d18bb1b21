"""Whatever is lost, and whenever: an error that names the host, and nothing left on any host.

How long that takes is in `benchmarks/losses.py`, and what it is made of in the tests of lines.
"""

import json
import signal
from pathlib import Path

import pytest

from paceline.store.runs import all_runs
from tests.machines.hosts import Hosts
from tests.machines.losses import (
    DRIVERS,
    NAMED,
    PATIENCE_S,
    interrupt_driver,
    is_named,
    keepers,
    moment,
    started,
    wait_until,
)
from tests.machines.runs import assert_nothing_is_left, is_training, only_run, over_ssh

MOMENTS = 10
RESTARTED = ("--strategy", "ring", "--on-failure", "restart", "--checkpoint-every", "1s")

pytestmark = pytest.mark.thorough


@pytest.fixture
def hosts(own_hosts):
    return own_hosts


def assert_sealed(hosts: Hosts) -> None:
    assert all(run.is_sealed for run in all_runs(hosts.folder / "runs"))


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("loss", NAMED)
def test_a_lost_host_is_named_and_nothing_is_left(loss, number, hosts):
    driver = started(hosts, moment(number))["a"]
    NAMED[loss](hosts, driver)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    assert any(is_named(line) for line in told.splitlines()), told
    assert_sealed(hosts)
    assert_nothing_is_left(hosts)


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("loss", DRIVERS)
def test_without_a_driver_nothing_is_left(loss, number, hosts):
    driver = started(hosts, moment(number))["a"]
    DRIVERS[loss](hosts, driver)
    driver.communicate(timeout=PATIENCE_S)
    assert_nothing_is_left(hosts)


@pytest.mark.parametrize("number", range(MOMENTS))
def test_a_driver_that_is_interrupted(number, hosts):
    driver = started(hosts, moment(number))["a"]
    interrupt_driver(hosts, driver)
    _, told = driver.communicate(timeout=PATIENCE_S)
    # Before Python itself has started there is nobody to answer, and nothing to be sealed.
    assert driver.returncode == 130 or (driver.returncode == -signal.SIGINT and not told), told
    assert_sealed(hosts)
    assert_nothing_is_left(hosts)


def test_keepers_that_are_killed_leave_no_files_of_the_user(hosts):
    file = hosts.folder / "mine.py"
    file.write_text(
        "import torch, paceline\n\n\nclass Mine(paceline.Workload):\n"
        "    def model(self):\n        return torch.nn.Linear(4, 2)\n\n"
        "    def data(self, split, dtype):\n"
        "        inputs = torch.linspace(-1, 1, 256, dtype=dtype).reshape(64, 4)\n"
        "        return paceline.Tensors(inputs, (inputs.sum(1) > 0).long(), origin='mine')\n"
    )
    asked = ("--strategy", "ring", "--batch", 8, "--seconds", 300)
    command = over_ssh(*asked, workload=f"{file}:Mine")
    driver = hosts.start("a", [each for each in command if each != "workload.subset=tenth"])
    wait_until(lambda: is_training(hosts.folder))
    assert any("paceline-sent-" in each for each in hosts.left("b"))
    assert keepers(hosts, "b")
    for pid in keepers(hosts, "b"):
        hosts.kill_process("b", pid)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    assert "(b)" in told
    assert_nothing_is_left(hosts)


def workers_on(hosts: Hosts, name: str) -> list[int]:
    """Give the processes of a host that are workers."""
    root = Path(f"/proc/{hosts.pid(name)}/root/proc")
    names = {pid: root.joinpath(str(pid), "comm") for pid in hosts.processes(name)}
    return [pid for pid, comm in names.items() if comm.read_text().startswith("pace-worker")]


def has_checkpoint(hosts: Hosts) -> bool:
    return any(hosts.folder.glob("runs/*/checkpoints/step-*/checkpoint.json"))


def test_a_worker_that_is_killed_has_all_started_again_from_a_checkpoint(hosts):
    driver = hosts.start("a", over_ssh(*RESTARTED, "--seconds", 15))
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


@pytest.mark.parametrize("strategy", ["ring", "ps-async"])
def test_a_run_that_may_go_on_does_so_without_a_host(strategy, hosts):
    asked = ("--strategy", strategy, "--on-failure", "go-on", "--seconds", 20)
    driver = hosts.start("a", over_ssh(*asked))
    wait_until(lambda: is_training(hosts.folder))
    hosts.kill("c")
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, told
    result = json.loads((only_run(hosts.folder).path / "result.json").read_text())
    assert result["status"] == "finished"
    (lost,) = result["disturbances"]
    assert lost["who"] == "worker2"
    assert lost["known_s"] <= lost["updated_s"]
    assert_nothing_is_left(hosts)


def test_a_host_that_is_lost_and_does_not_come_back_ends_the_run(hosts):
    driver = hosts.start("a", over_ssh(*RESTARTED, "--seconds", 300, "cluster.join_s=10"))
    wait_until(lambda: has_checkpoint(hosts))
    hosts.kill("b")
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    assert "(b)" in told
    runs = [*all_runs(hosts.folder / "runs")]
    assert len(runs) == 2
    assert all(run.is_sealed for run in runs)
    assert_nothing_is_left(hosts)
