"""A comparison beside other programs: one that uses every core, on a model of the user's own."""

import json
import subprocess
import sys

import pytest

from paceline.system.cores import usable_cores
from tests.terminal import typed

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


pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A comparison, typed beside one program per core that never rests."""
    cwd = tmp_path_factory.mktemp("busy")
    (cwd / "mine.py").write_text(MINE)
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(int(usable_cores() or 1))
    ]
    try:
        told = typed(
            "compare", "mine.py:Mlp", "--strategies", "single,ps-async", "--workers", 2,
            "--seconds", 3.2, "--repeat", 2, "--json", cwd=cwd,
        )  # fmt: skip
        assert all(hog.poll() is None for hog in hogs)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert told.code == 0, told.text
    return told


@pytest.fixture(scope="module")
def as_json(busy):
    (line,) = (line for line in busy.lines if line.startswith("{"))
    return json.loads(line)


def test_no_winner_is_named(busy):
    words = busy.words.partition("{")[0]
    assert "No side can be called fastest" in words
    assert " is fastest" not in words


def test_what_to_do_is_said(busy):
    assert "use a quieter machine" in busy.words


def test_the_ranking_says_why_nobody_is_ranked(as_json):
    assert {place["reason"] for place in as_json["ranking"]} == {"host-limited"}
    assert not any(place["ranked"] or place["fastest"] for place in as_json["ranking"])


def test_the_conclusion_compares_nothing_and_is_the_one_that_was_printed(as_json, busy):
    assert as_json["conclusion"][0].startswith("No side can be called fastest")
    assert not any("times" in sentence for sentence in as_json["conclusion"])
    assert as_json["conclusion"][1] == "End the other programs, or use a quieter machine."
    assert as_json["conclusion"][0] in busy.words.partition("{")[0]


def test_the_result_and_its_verdict_say_the_same_as_the_ranking(as_json):
    for run in as_json["runs"]:
        assert run["host_limited"]
        assert run["verdict"]["kind"] == "host-limited"


def test_all_have_the_same_threads_and_it_is_said(as_json, busy):
    assert len({run["threads"] for run in as_json["runs"]}) == 1
    assert "Each worker computes with" in busy.words
