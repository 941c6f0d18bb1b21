"""Hosts as Debian and Ubuntu set them up: each one's own name is a loopback address there."""

import json

import pytest

from paceline.store.runs import all_runs
from tests.commands import QUICK
from tests.machines.runs import PACELINE, SAME, assert_nothing_is_left, over_ssh
from tests.machines.test_manual import SECRET, secret_file
from tests.machines.torchruns import meeting_at, start, told

pytestmark = pytest.mark.thorough
RING = ("--strategy", "ring", "--worker-steps", 20)
_ENOUGH_S = 100


@pytest.fixture(scope="module")
def debian(hosts):
    hosts.know_only_names("127.0.1.1")
    return hosts


def assert_all_were_reached(hosts, folder):
    results = [
        json.loads((run.path / "result.json").read_text()) for run in all_runs(folder / "runs")
    ]
    (ring,) = [each for each in results if each["strategy"] == "ring"]
    assert ring["status"] == "finished"
    assert len(ring["pairs"]) == 3 * 2
    assert not any("could not be measured" in each for each in ring["warnings"])
    told = [at for listeners in ring["listeners"].values() for at in listeners]
    assert any(hosts.address("a") in at for at in told)
    assert not any("127." in at for at in told), told
    assert_nothing_is_left(hosts)


def test_through_ssh_after_a_run_that_needs_the_driver_only(debian, folder):
    asked = over_ssh("--strategies", "single,ring", "--repeat", 1, "--steps", 20)
    compare = ["compare" if each == "run" else each for each in asked]
    done = debian.run("a", compare, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_all_were_reached(debian, folder)


def test_by_hand_in_a_list_of_names(debian, folder):
    secret = secret_file(folder, SECRET)
    join = [*secret, *PACELINE, "join", debian.address("a")]
    joined = [debian.start(name, join) for name in debian.names]
    where = ("--cluster", "manual", "--set", 'cluster.hosts.worker=["a","b","c"]')
    run = [*secret, *PACELINE, "run", "logistic-mnist", *where, *RING, *QUICK, *SAME]
    done = debian.run("a", run, cwd=folder)
    assert done.returncode == 0, done.stderr
    for each in joined:
        _, said = each.communicate(timeout=_ENOUGH_S)
        assert each.returncode == 0, said
    assert_all_were_reached(debian, folder)


def test_through_torchrun_whose_store_is_on_another_host(debian, folder):
    said = told(start(debian, folder, meeting_at("b"), *RING))
    assert {code for code, _ in said.values()} == {0}, said
    assert_all_were_reached(debian, folder)
