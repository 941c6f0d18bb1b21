"""A node that falls silent: nothing breaks, nothing arrives, and every strategy must notice."""

import json
import os
import subprocess
import sys

import pytest

from paceline.clusters.emulated.network import INTERFACE
from tests.commands import QUICK, start
from tests.strategies.test_ps_deaths import PATIENCE_S, pid_of, wait_until

CUT = """
import os, sys
from pyroute2 import IPRoute
from paceline.system import linux
linux.setns(os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY), linux.CLONE_NEWNET)
with IPRoute() as ip:
    (index,) = ip.link_lookup(ifname=sys.argv[2])
    ip.link("set", index=index, state="down")
"""


def are_training(folder) -> bool:
    records = list(folder.glob("runs/*/records/worker*.jsonl"))
    return len(records) == 2 and all(each.stat().st_size for each in records)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can enter a node from outside")
@pytest.mark.parametrize("strategy", ["ddp", pytest.param("ring", marks=pytest.mark.thorough)])
def test_a_node_that_falls_silent_is_named_and_ends_the_run(strategy, tmp_path):
    options = ("--strategy", strategy, "--workers", 2, "--seconds", 300)
    command = ("run", "logistic-mnist", *QUICK, "--cluster", "emulated", *options)
    driver = start(*command, cwd=tmp_path)
    try:
        wait_until(lambda: are_training(tmp_path))
        node = str(pid_of("worker1", tmp_path))
        subprocess.run([sys.executable, "-c", CUT, node, INTERFACE], check=True)
        _, errors = driver.communicate(timeout=PATIENCE_S)
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 1
    result = json.loads(next(tmp_path.glob("runs/*/result.json")).read_text())
    assert result["status"] == "failed"
    # Each of the two has lost the other; the first to say so is believed.
    assert any(f"worker{rank} failed: worker{1 - rank} lost" in errors for rank in range(2)), errors
