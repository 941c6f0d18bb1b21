"""A comparison beside other programs: one that uses every core, on a model of the user's own."""

import subprocess
import sys

import pytest

from paceline.measure.environment import usable_cores
from tests.commands import last_json, paceline

# As small as first models are, on random numbers; it says nothing about threads.
MINE = """
import torch
from torch import nn

import paceline


class Mlp(paceline.Workload):
    default_batch = 32

    def model(self):
        return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))

    def data(self, split, dtype):
        seed = {"train": 0, "test": 1}[split]
        rows = torch.randn(4000, 20, dtype=dtype, generator=torch.Generator().manual_seed(seed))
        return paceline.Tensors(rows, (rows.sum(1) > 0).long())
"""


@pytest.fixture
def hogs():
    """One program per core that never rests."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(int(usable_cores() or 1))
    ]
    yield running
    for hog in running:
        hog.kill()
        hog.wait()


@pytest.mark.alone
def test_no_winner_is_named_while_others_use_the_cores(hogs, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    done = paceline(
        "compare",
        "mine.py:Mlp",
        *("--strategies", "single,ps-async", "--workers", 2),
        *("--seconds", 3.2, "--repeat", 2, "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert all(hog.poll() is None for hog in hogs)
    told = last_json(done)
    assert {place["reason"] for place in told["ranking"]} == {"host-limited"}
    assert not any(place["ranked"] or place["fastest"] for place in told["ranking"])
    assert told["conclusion"][0].startswith("No side can be called fastest")
    assert not any("times" in sentence for sentence in told["conclusion"])
    assert told["conclusion"][1] == "End the other programs, or use a quieter machine."
    assert told["conclusion"][0] in done.stdout.replace("\n", " ")
    # The result, its verdict and the ranking say one thing.
    for run in told["runs"]:
        assert run["host_limited"]
        assert run["verdict"]["kind"] == "host-limited"
    assert len({run["threads"] for run in told["runs"]}) == 1
    assert "Each worker computes with" in done.stderr
