from __future__ import annotations

import json

import pytest

from paceline.outcome.results import NodeUsage
from tests.commands import paceline
from tests.made_runs import made
from tests.verdict.made import worker


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run with a straggler, and one that failed; what else this machine does is not in them."""
    cwd = tmp_path_factory.mktemp("explained")
    fast = worker(0, compute_s=1.0, exchange_s=9.0, wait_s=8.0)
    slow = worker(1, compute_s=9.0, exchange_s=1.0, wait_s=0.0)
    made(cwd / "runs", "ring", num_workers=2, workers=(fast, slow), host_cpu_percent=40.0)
    made(cwd / "runs", "ps-sync", num_workers=2, status="failed")
    beside = NodeUsage(name="node0", seats=("worker0",), cpu_percent_mean=50.0)
    full = {"host_cpu_percent": 99.0, "host_cores": 2, "nodes": (beside,)}
    made(cwd / "runs", "single", num_workers=1, **full)
    return cwd


class TestExplain:
    def test_shows_bars_resources_the_sentence_and_what_to_try(self, runs):
        told = paceline("explain", "ring", cwd=runs).stdout
        for expected in ("A step of each worker", "C compute", "host, all cores", "worker1 takes"):
            assert expected in told
        assert "repair worker1" in told.partition("What to try next")[2]

    def test_beside_other_programs_it_says_what_to_do(self, runs):
        told = paceline("explain", "single", cwd=runs).stdout
        assert "other programs use 74 % of them" in told
        assert told.endswith("What to try next\nend the other programs, or use a quieter machine\n")

    def test_a_bar_needs_no_colours(self, runs):
        told = paceline("explain", "ring", cwd=runs).stdout
        bars = [line for line in told.splitlines() if line.startswith("worker0 ")]
        assert "...." in bars[0]
        assert "\x1b" not in told

    def test_gives_the_same_as_json(self, runs):
        told = json.loads(paceline("explain", "ring", "--json", cwd=runs).stdout)
        assert told["verdict"]["where"] == "worker1"
        assert told["suggestions"][0]["name"] == "straggler"
        assert set(told["parts"]) == {"worker0", "worker1"}

    def test_a_failed_run_is_explained_as_far_as_it_got(self, runs):
        told = paceline("explain", "ps-sync", cwd=runs)
        assert told.returncode == 0
        assert "failed: " in told.stdout
        assert "the run did not finish" in told.stdout

    def test_a_run_that_is_not_there_is_named(self, tmp_path):
        told = paceline("explain", "nothing", cwd=tmp_path)
        assert told.returncode != 0
        assert "no such run" in told.stderr
