"""Runs that are driven from one host and take place on all."""

import json
import sys
import time
from pathlib import Path

import paceline
from paceline.store.runs import RunDir, all_runs
from tests.commands import QUICK
from tests.machines.hosts import Hosts

PACELINE = (sys.executable, "-m", "paceline")
SAME = ("threads=1", "record.loss=all", "record.tensorboard=false")
CONFORMANCE = (
    *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    "tests/machines/test_conformance.py",
)
"""What every cluster must do; a variable says which, and its tests are carried out."""
ON_HOSTS = f"cluster.python={sys.executable}"


def over_ssh(
    *arguments: object, hosts: str = "a,b,c", workload: str = "logistic-mnist"
) -> list[object]:
    """Give the command of a run, for the first of the hosts."""
    ssh = ("--cluster", "ssh", "--hosts", hosts)
    return [*PACELINE, "run", workload, *ssh, *arguments, *QUICK, *SAME, ON_HOSTS]


def is_training(folder: Path) -> bool:
    return any(path.stat().st_size for path in folder.glob("runs/*/records/worker*.jsonl"))


def only_run(folder: Path) -> RunDir:
    (run,) = all_runs(folder / "runs")
    return run


def assert_nothing_is_left(hosts: Hosts, within_s: float = 15.0) -> None:
    deadline_s = time.monotonic() + within_s
    while left := {name: found for name in hosts.names if (found := hosts.left(name))}:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)


def assert_all_were_recorded(run: Path, cluster: str) -> None:
    seen = paceline.load(run)
    assert set(seen.nodes()["node"]) == {"node0", "node1", "node2"}
    assert set(seen.rows()["seat"]) == {"worker0", "worker1", "worker2"}
    assert {"worker2.log", "monitor2.log"} <= {path.name for path in (run / "logs").iterdir()}
    result = json.loads((run / "result.json").read_text())
    assert result["cluster"] == cluster
    assert len(result["pairs"]) == 3 * 2
    assert all(each["bits_per_s"] > 0 and each["round_trip_s"] > 0 for each in result["pairs"])
    assert all(each["clock_uncertainty_s"] > 0 for each in result["nodes"])
