"""Real machines that torchrun brings together: the same command on each of them."""

import json
import sys
from pathlib import Path

import pytest

from tests.machines.runs import CONFORMANCE, assert_nothing_is_left, only_run
from tests.machines.strategies import STEPS, asked_for, assert_as_on_one_machine, cases, trusting
from tests.machines.torchruns import (
    PORT,
    SECRET,
    c10d,
    start,
    start_program,
    static,
    told,
)
from tests.paths import ROOT

SPY = Path(__file__).with_name("store_spy.py")


@pytest.mark.parametrize(("strategy", "workload"), cases("ps-sync-logistic-mnist"))
def test_three_hosts_come_to_what_one_machine_comes_to(strategy, workload, named, folder):
    assert_same(named, folder, meeting=c10d, driver="a", strategy=strategy, workload=workload)


@pytest.mark.thorough
def test_it_is_a_cluster_as_all_are(named, folder):
    suite = {"variables": ["PACELINE_TEST_TORCHRUN=3"], "cwd": ROOT}
    started = start_program(named, folder, c10d, CONFORMANCE[1:], **suite)
    printed = {name: "".join(each.communicate(timeout=300)) for name, each in started.items()}
    assert "5 passed" in printed["a"], printed["a"]
    assert all(each.returncode == 0 for each in started.values()), printed
    assert_nothing_is_left(named)


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["ring", "ps-sync"])
def test_the_host_that_drives_can_be_chosen(strategy, named, folder):
    chosen = {"meeting": static, "driver": "b", "workload": "logistic-mnist"}
    assert_same(named, folder, strategy=strategy, **chosen)


def assert_same(named, folder, *, meeting, driver, strategy, workload) -> None:
    there, here = folder / "there", folder / "here"
    there.mkdir(), here.mkdir()
    asked = (*asked_for(strategy, workload), *trusting(strategy))
    started = start(named, there, meeting, *asked, workload=workload)
    for name, (code, said) in told(started).items():
        assert code == 0, said
        drives = "this host drives the run" if name == driver else f"is driven from {driver}"
        assert drives in said
    assert_nothing_is_left(named)
    assert_as_on_one_machine(strategy, workload, "torchrun", there, here)
    assert SECRET not in "".join(path.read_text() for path in only_run(there).path.glob("*.*[nl]"))


@pytest.mark.thorough
def test_a_host_with_another_secret_is_named(named, folder):
    wrong = {"c": SECRET[::-1]}
    found = told(start(named, folder, c10d, "--strategy", "ring", *STEPS, secrets=wrong))
    assert all(code == 1 for code, _ in found.values())
    assert "node2 (c): its run secret is not the driver's" in found["a"][1]
    assert "node2 (c): its run secret is not the driver's" in found["b"][1]
    assert "the run secret of c is not that of rank 0, on a" in found["c"][1]
    assert_nothing_is_left(named)


@pytest.mark.thorough
def test_a_failure_of_the_driver_ends_all_with_its_code(named, folder):
    asked = ("--strategy", "ring", "--workers", 2, *STEPS)  # two for three machines
    for _, said in told(start(named, folder, static, *asked)).values():
        assert "2 workers leave some of them empty" in said
        assert "exitcode  : 2" in said
    assert_nothing_is_left(named)


@pytest.mark.thorough
def test_whoever_reads_the_store_sees_no_secret(named, folder):
    """A stranger reads all of it while the run goes on."""
    started = start(named, folder, static, "--strategy", "ring", "--seconds", 8)
    spy = named.run("c", [sys.executable, SPY, named.address("b"), PORT], timeout=100)
    assert spy.returncode == 0, spy.stderr
    seen = json.loads(spy.stdout)
    assert all(code == 0 for code, _ in told(started).values())
    words = {key: value for key, value in seen.items() if key.startswith("paceline/word/")}
    assert len(words) >= 4, seen.keys()  # each of two hosts was welcomed, and asked to serve
    for value in seen.values():
        assert not any(each in value for each in (SECRET, "CERTIFICATE", "token", "invitation"))
