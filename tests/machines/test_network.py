"""What somebody else on the network can see of a run, and do to it."""

import json
import subprocess
import sys
import time

import pytest

from tests.machines.marked_workload import PATTERN
from tests.machines.runs import (
    ON_HOSTS,
    PACELINE,
    SAME,
    assert_nothing_is_left,
    is_training,
    only_run,
    over_ssh,
)
from tests.paths import ROOT

# A few parameters beside each other: four bytes alone may come about by chance.
MARK = PATTERN.to_bytes(4, "little") * 8
WORKLOAD = f"{ROOT}/tests/machines/marked_workload.py:Marked"


def marked_run(hosts, folder, strategy, *more: object) -> dict:
    """Run it on two hosts, and give what is seen on the link of the second."""
    command = [sys.executable, "-m", "tests.machines.capture", MARK.hex()]
    spy = hosts.start("b", command, cwd=ROOT, stdin=subprocess.PIPE)
    assert json.loads(spy.stdout.readline()) == "ready"
    asked = ("--strategy", strategy, "--steps", 3, "--lr", 1e-30)
    where = ("--cluster", "ssh", "--hosts", "a,b")
    fields = ("--set", *SAME, ON_HOSTS, *more)
    done = hosts.run("a", [*PACELINE, "run", WORKLOAD, *where, *asked, *fields], cwd=folder)
    assert done.returncode == 0, done.stderr
    seen, _ = spy.communicate("", timeout=60)
    assert_nothing_is_left(hosts)
    return json.loads(seen)


@pytest.mark.parametrize("strategy", ["ps-sync", pytest.param("ring", marks=pytest.mark.thorough)])
def test_a_capture_of_the_link_shows_no_parameter(strategy, hosts, folder):
    seen = marked_run(hosts, folder, strategy)
    assert seen["bytes"] > 30_000  # it did pass there
    assert seen["found"] == []


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["ps-sync", "ring"])
def test_without_encryption_it_does(strategy, hosts, folder):
    """So the test above would see it."""
    seen = marked_run(hosts, folder, strategy, "cluster.encrypt=false")
    assert seen["found"] == [MARK.hex()]
    result = json.loads((only_run(folder).path / "result.json").read_text())
    assert any("not encrypted: cluster.encrypt=false" in each for each in result["warnings"])


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["ps-sync", "ring"])
def test_a_stranger_with_ten_thousand_half_open_connections(strategy, hosts, folder):
    asked = over_ssh("--strategy", strategy, "--seconds", 12, hosts="a,b")
    driver = hosts.start("a", asked, cwd=folder)
    deadline_s = time.monotonic() + 90
    while not is_training(folder):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    targets = [
        f"{hosts.address(name)}:{port}" for name in ("a", "b") for port in ports(hosts, name)
    ]
    assert len(targets) >= 4
    command = [sys.executable, "-m", "tests.machines.stranger", 10_000, *targets]
    stranger = hosts.start("c", command, cwd=ROOT, stdin=subprocess.PIPE)
    assert stranger.stdout.readline() == "10000\n"
    assert driver.poll() is None, "it has ended before the stranger was done"
    _, told = driver.communicate(timeout=100)
    became, _ = stranger.communicate("", timeout=60)
    assert driver.returncode == 0, told
    result = json.loads((only_run(folder).path / "result.json").read_text())
    assert result["status"] == "finished"
    refused = result["refused_calls"] + sum(
        each["rejected_peers"] or 0 for each in (*result["workers"], *result["servers"])
    )
    assert refused > 100, became
    assert_nothing_is_left(hosts)


def ports(hosts, name) -> list[str]:
    """Where processes of a host listen, but for its sshd."""
    listening = hosts.run(name, ["ss", "-Htln"]).stdout.splitlines()
    found = [line.split()[3].rpartition(":") for line in listening]
    return [port for host, _, port in found if host == hosts.address(name) and port != "22"]
