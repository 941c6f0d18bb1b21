"""A comparison on real machines: the same agents carry out all of its runs."""

import json

import pytest

from paceline.store.runs import all_runs
from tests.commands import QUICK
from tests.machines.runs import ON_HOSTS, PACELINE, SAME, assert_nothing_is_left
from tests.machines.test_manual import SECRET, join, listed, secret_file
from tests.machines.torchruns import c10d, start, told

pytestmark = pytest.mark.thorough
SIDES = ("--strategies", "single,ring,ps-sync", "--seconds", 1, "--repeat", 2)


def results(folder) -> list[dict]:
    return [json.loads((run.path / "result.json").read_text()) for run in all_runs(folder / "runs")]


def assert_all_finished(folder, cluster: str) -> None:
    found = results(folder)
    assert {each["status"] for each in found} == {"finished"}
    assert {each["cluster"] for each in found} == {cluster}
    sides = [(each["strategy"], each["num_workers"]) for each in found]
    assert sorted(sides) == sorted(2 * [("single", 1), ("ring", 3), ("ps-sync", 3)])
    (report,) = folder.glob("reports/*/report.html")
    assert "ps-sync" in report.read_text()


def test_over_ssh_each_host_is_logged_in_to_once(hosts, folder):
    logs = {name: hosts.folder / "ssh" / f"log_{name}" for name in hosts.names}
    before = {name: log.read_text().count("Accepted publickey") for name, log in logs.items()}
    asked = ("compare", "logistic-mnist", "--cluster", "ssh", "--hosts", "a,b,c", *SIDES)
    done = hosts.run("a", [*PACELINE, *asked, *QUICK, *SAME, ON_HOSTS], cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    assert_all_finished(folder, "ssh")
    for name, log in logs.items():
        assert log.read_text().count("Accepted publickey") == before[name] + 1
    assert_nothing_is_left(hosts)


def test_through_torchrun(named, folder):
    started = start(named, folder, c10d, *SIDES, command="compare")
    for code, said in told(started).values():
        assert code == 0, said
    assert_all_finished(folder, "torchrun")
    assert_nothing_is_left(named)


def test_by_hand_all_hosts_of_the_list_join_once_whichever_run_needs_them_first(hosts, folder):
    """The single one needs one host, the ring two, and the servers the third."""
    secret = secret_file(folder, SECRET)
    joined = [join(hosts, name, secret) for name in hosts.names]
    servers = f'cluster.hosts.ps=["{hosts.address("c")}"]'
    where = ("--cluster", "manual", *listed(hosts, "a", "b", ports=False), servers)
    asked = ("compare", "logistic-mnist", *SIDES, *where)
    command = [*secret, *PACELINE, *asked, *QUICK, *SAME]
    done = hosts.run("a", command, cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    for each in joined:
        _, said = each.communicate(timeout=100)
        assert (each.returncode, "the run is over" in said) == (0, True), said
    found = results(folder)
    assert {each["status"] for each in found} == {"finished"}
    assert {each["strategy"] for each in found} == {"single", "ring", "ps-sync"}
    assert {each["refused_calls"] for each in found} == {0}
    assert_nothing_is_left(hosts)
