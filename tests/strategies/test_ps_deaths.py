"""A worker or a server that dies, or is stopped, is named on every other seat, in every mode."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import start

PATIENCE_S = 60.0
SEATS = ("worker0", "worker1", "worker2", "server0", "server1", "monitor0")

# Every mode with every kind of victim, and over every transport.
CASES = [
    ("ps-async", "zmq", "worker1", signal.SIGKILL),
    ("ps-async", "shared", "server0", signal.SIGKILL),
    ("ps-sync", "zmq-tcp", "server1", signal.SIGKILL),
    ("ps-sync", "shared", "worker2", signal.SIGKILL),
    ("ps-ssp", "zmq", "server0", signal.SIGKILL),
    ("ps-ssp", "shared", "worker1", signal.SIGKILL),
    ("ps-sync", "zmq", "worker1", signal.SIGSTOP),
    ("ps-async", "shared", "server0", signal.SIGSTOP),
]
FATES = {
    signal.SIGKILL: "killed by signal 9 (SIGKILL)",
    signal.SIGSTOP: "stopped (SIGSTOP) for more than 3 s",
}


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.02)


def pid_of(seat: str, folder: Path) -> int:
    """Find a seat's process by the log it writes to."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "fd/1").readlink().match(f"logs/{seat}.log"):
                log = (process / "fd/1").readlink()
                if log.is_relative_to(folder.resolve()):
                    return int(process.name)
        except OSError:  # it ended meanwhile
            continue
    raise AssertionError(f"{seat} is not there")


def all_are_training(folder: Path) -> bool:
    records = list(folder.glob("runs/*/records/worker*.jsonl"))
    return len(records) == 3 and all(each.stat().st_size for each in records)


@pytest.mark.parametrize(("strategy", "transport", "victim", "fate"), CASES)
def test_every_seat_names_the_one_that_is_gone(strategy, transport, victim, fate, tmp_path):
    settings = ["--set", f"cluster.transport={transport}", "--set", "strategy.servers=2"]
    settings += ["--set", "detect_s=3"]  # before silence on the data path tells of it
    if strategy == "ps-ssp":
        settings += ["--set", "strategy.staleness=2"]
    command = ("run", "paceline.testing:Moons", "--strategy", strategy, "--workers", 3)
    driver = start(*command, "--seconds", 300, *settings, cwd=tmp_path)
    try:
        wait_until(lambda: all_are_training(tmp_path))
        os.kill(pid_of(victim, tmp_path), fate)
        _, errors = driver.communicate(timeout=PATIENCE_S)
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 1
    assert f"{victim} failed: {FATES[fate]}" in errors
    for seat in set(SEATS) - {victim}:
        log = next(tmp_path.glob(f"runs/*/logs/{seat}.log")).read_text()
        assert f"ended: {victim} failed: {FATES[fate]}" in log, seat


def test_who_dies_while_the_run_is_stopped_is_named_and_not_waited_for(tmp_path):
    command = ("run", "paceline.testing:Moons", "--strategy", "ps-sync", "--workers", 3)
    driver = start(*command, "--seconds", 300, cwd=tmp_path)
    try:
        wait_until(lambda: all_are_training(tmp_path))
        victim = pid_of("worker2", tmp_path)
        os.kill(victim, signal.SIGSTOP)  # so that nobody can end the step
        driver.send_signal(signal.SIGINT)
        os.kill(victim, signal.SIGKILL)
        driver.communicate(timeout=PATIENCE_S)
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 130
    (run,) = tmp_path.glob("runs/*")
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "interrupted"
    assert any(text.startswith("worker2 failed while") for text in result["warnings"])
