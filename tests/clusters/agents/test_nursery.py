"""The process of an agent that imports torch and forks keepers: neither outlives the other."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.system.waiting import time_left

PATIENCE_S = 30
AGENT = """
import os, sys, time
from paceline.clusters.agents.nursery import Nursery
from paceline.errors import RunError

nursery = Nursery()
print(nursery._pid, flush=True)
sys.stdin.readline()
{then}
"""
CHECKING = """
try:
    while True:
        nursery.check()
        time.sleep(0.02)
except RunError as error:
    print(error)
"""


def agent(then: str) -> tuple[subprocess.Popen[str], int]:
    """Start what makes a nursery, and does something when a line comes; gives the nursery's pid."""
    started = subprocess.Popen(
        [sys.executable, "-c", AGENT.format(then=then)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return started, int(started.stdout.readline())


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def wait_until(condition) -> None:
    for _ in time_left(PATIENCE_S):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


@pytest.mark.parametrize("then", ["nursery.end()", "raise SystemExit", "os.kill(os.getpid(), 9)"])
def test_it_ends_with_its_agent(then):
    started, pid = agent(then)
    assert is_there(pid)
    started.communicate("now\n", timeout=PATIENCE_S)
    wait_until(lambda: not is_there(pid))


def test_an_agent_whose_nursery_has_ended_says_so():
    started, pid = agent(CHECKING)
    os.kill(pid, 9)
    printed, _ = started.communicate("now\n", timeout=PATIENCE_S)
    assert printed == "the process that imports torch there has ended\n"


def test_what_comes_for_the_agent_is_not_read_by_it():
    started, pid = agent("nursery.end()")
    wait_until(lambda: str(Path(f"/proc/{pid}/fd/0").readlink()) == "/dev/null")
    started.communicate("now\n", timeout=PATIENCE_S)
