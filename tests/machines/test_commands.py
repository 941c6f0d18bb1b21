"""Commands that are no single run, on real machines: monitor, calibrate, study."""

import csv
import json
import tomllib

import pytest

from tests.commands import QUICK
from tests.machines.runs import ON_HOSTS, PACELINE, assert_nothing_is_left

pytestmark = pytest.mark.thorough
ON_ALL = ("--cluster", "ssh", "--hosts", "a,b,c")


def succeed(hosts, folder, *command: object) -> str:
    done = hosts.run("a", [*PACELINE, *command], cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_is_left(hosts)
    return done.stdout + done.stderr


def test_a_command_is_watched_on_each_host(hosts, folder):
    rows = folder / "rows.csv"
    asked = (*ON_ALL, "--set", ON_HOSTS, "--interval", 0.2, "--out", rows)
    told = succeed(hosts, folder, "monitor", *asked, "--", "sh", "-c", "hostname; sleep 0.5")
    assert all(f"node{index}: {name}" in told for index, name in enumerate("abc"))
    with rows.open() as file:
        found = [*csv.DictReader(file)]
    assert {each["node"] for each in found} == {"node0", "node1", "node2"}
    assert all(float(each["time_s"]) > 0 for each in found)


def test_the_worst_exit_code_is_that_of_monitor(hosts, folder):
    command = (*PACELINE, "monitor", *ON_ALL, "--set", ON_HOSTS, "--")
    done = hosts.run("a", [*command, "sh", "-c", "test $(hostname) != b"], cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "exit codes: node0 0, node1 1, node2 0" in done.stderr
    missing = hosts.run("a", [*command, "no-such-program"], cwd=folder)
    assert missing.returncode == 2, missing.stderr
    assert "cannot be started on node" in missing.stderr
    assert_nothing_is_left(hosts)


def test_each_host_is_calibrated_into_a_file_of_its_own(hosts, folder):
    asked = ("logistic-mnist", *ON_ALL, "--repeat", 3, *QUICK, ON_HOSTS)
    succeed(hosts, folder, "calibrate", *asked)
    for index, name in enumerate("abc"):
        file = folder / f"logistic-mnist-node{index}.rates.toml"
        table = tomllib.loads(file.read_text())
        assert f"on node{index} ({name})" in table["source"]
    device = ("--device", "replay:logistic-mnist-node1.rates.toml", "--steps", 5)
    replayed = ("logistic-mnist", *device, *QUICK, "threads=1")
    told = succeed(hosts, folder, "run", *replayed, "record.tensorboard=false")
    assert "replayed compute" in told


def test_a_study_uses_as_many_of_the_hosts_as_a_run_needs(hosts, folder):
    asked = ("mnist-logistic", "--quick", "--only", "pair", *ON_ALL, "--set", "epochs=1")
    done = hosts.run(
        "a", [*PACELINE, "study", *asked, ON_HOSTS, "threads=1"], cwd=folder, timeout=300
    )
    found = [json.loads(path.read_text()) for path in folder.rglob("result.json")]
    assert {each["status"] for each in found} == {"finished"}, done.stdout + done.stderr
    assert {each["cluster"] for each in found} == {"ssh"}
    sides = {(each["strategy"], each["num_workers"], len(each["nodes"])) for each in found}
    assert sides == {(each, count, count) for each in ("ps-async", "ps-sync") for count in (2, 3)}
    assert_nothing_is_left(hosts)
