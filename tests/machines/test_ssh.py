"""Real machines through ssh, as a user with three of them sees it."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.machines.hosts import NOWHERE, REFUSED
from tests.machines.losses import wait_until
from tests.machines.runs import (
    CONFORMANCE,
    assert_nothing_is_left,
    is_training,
    only_run,
    over_ssh,
)
from tests.machines.strategies import asked_for, assert_as_on_one_machine, cases, trusting
from tests.paths import ROOT

# The others are thorough.
QUICKLY = ("ring-logistic-mnist", "ps-async-lenet-mnist")


def test_it_is_a_cluster_as_all_are(hosts):
    told = os.environ | {"PACELINE_TEST_HOSTS": "a,b"}
    done = hosts.run("a", CONFORMANCE, cwd=ROOT, env=told)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert_nothing_is_left(hosts)


@pytest.mark.parametrize(("strategy", "workload"), cases(*QUICKLY))
def test_three_hosts_come_to_what_one_machine_comes_to(strategy, workload, hosts, folder):
    there, here = folder / "there", folder / "here"
    there.mkdir(), here.mkdir()
    done = hosts.run(
        "a",
        over_ssh(*asked_for(strategy, workload), *trusting(strategy), workload=workload),
        cwd=there,
    )
    assert done.returncode == 0, done.stderr
    assert_nothing_is_left(hosts)
    assert_as_on_one_machine(strategy, workload, "ssh", there, here)


@pytest.mark.thorough
def test_a_second_run_on_the_same_hosts_does_not_disturb_the_first(hosts, folder):
    folders = [folder / name for name in ("first", "second")]
    for each in folders:
        each.mkdir()
    first = hosts.start("a", over_ssh("--strategy", "ring", "--seconds", 30), cwd=folders[0])
    wait_until(lambda: first.poll() is not None or is_training(folders[0]))
    meanwhile = over_ssh("--strategy", "ps-sync", "--worker-steps", 60, hosts="b,c,a")
    second = hosts.run("b", meanwhile, cwd=folders[1])
    assert second.returncode == 0, second.stderr
    assert first.poll() is None, "it has ended before the second one was done"
    _, told = first.communicate(timeout=100)
    assert first.returncode == 0, told
    results = [json.loads((only_run(each).path / "result.json").read_text()) for each in folders]
    for each in results:
        assert each["status"] == "finished"
        assert each["refused_calls"] == 0
        assert not any(seat["rejected_peers"] for seat in (*each["workers"], *each["servers"]))
    listeners = [{at for own in each["listeners"].values() for at in own} for each in results]
    assert listeners[0].isdisjoint(listeners[1])
    assert_nothing_is_left(hosts)


class TestErrors:
    """Each is told before anything trains, names the host, and leaves nothing."""

    def refused(self, hosts, folder, *arguments, names="a,b") -> str:
        done = hosts.run("a", over_ssh("--strategy", "ring", *arguments, hosts=names), cwd=folder)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        run = only_run(folder)
        result = json.loads((run.path / "result.json").read_text())
        assert result["status"] == "failed"
        assert not any(run.path.glob("records/worker*"))
        assert_nothing_is_left(hosts)
        assert result["reason"] in done.stderr
        return done.stderr

    def test_a_host_that_is_not_there(self, hosts, folder):
        told = self.refused(hosts, folder, names=f"a,{NOWHERE}")
        assert "node1 (nowhere): ssh cannot reach it" in told
        assert "No route to host" in told
        assert "starting: waiting for node0 (a), node1 (nowhere)" in told

    def test_a_key_that_is_not_accepted(self, hosts, folder):
        told = self.refused(hosts, folder, names=f"b,{REFUSED}")
        assert "node1 (refused): it accepts none of your ssh keys" in told

    def test_an_interpreter_that_is_not_there(self, hosts, folder):
        told = self.refused(hosts, folder, "--set", 'cluster.pythons={b="/opt/none/python"}')
        assert "node1 (b): no interpreter '/opt/none/python' there" in told

    def test_an_interpreter_without_paceline(self, hosts, folder):
        bare = script(folder, f'exec {sys.executable} -S "$@"')
        told = self.refused(hosts, folder, "--set", f'cluster.pythons={{b="{bare}"}}')
        assert f"node1 (b): Paceline is not installed for '{bare}' there" in told

    def test_another_torch(self, hosts, folder):
        metadata = folder / "older" / "torch-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0+cu\n")
        older = script(folder, f'PYTHONPATH={folder}/older exec {sys.executable} "$@"')
        told = self.refused(hosts, folder, "--set", f'cluster.pythons={{b="{older}"}}')
        assert "node1 (b): it has torch 1.0, the driver " in told


def script(folder: Path, text: str) -> Path:
    """Write an interpreter that is not quite the usual one; every host sees it."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(text)}\n")
    path.chmod(0o755)
    return path
