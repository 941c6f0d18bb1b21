from __future__ import annotations

import json

import pytest

from paceline.testing.workloads import Burdened, Poisoned
from tests.commands import paceline

BURDENED = f"{Burdened.__module__}:Burdened"
POISONED = f"{Poisoned.__module__}:Poisoned"
BRIEF = ("--set", "record.tensorboard=false", "record.model=false")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run with a straggler, and one that failed."""
    cwd = tmp_path_factory.mktemp("explained")
    common = ("--workers", "2", *BRIEF)
    slow = ("workload.slow_rank=1", "workload.slow_backward_ms=60")
    done = paceline(
        "run", BURDENED, "--strategy", "ring", "--worker-steps", "6", *common, *slow, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    assert "verdict straggler: worker1" in done.stdout
    failed = paceline("run", POISONED, "--strategy", "ring", *common, "workload.poison=3", cwd=cwd)
    assert failed.returncode != 0
    return cwd


class TestExplain:
    def test_shows_bars_resources_the_sentence_and_what_to_try(self, runs):
        told = paceline("explain", "Burdened", cwd=runs).stdout
        for expected in ("A step of each worker", "C compute", "host, all cores", "worker1 takes"):
            assert expected in told
        assert "mend worker1" in told.partition("What to try next")[2]

    def test_a_bar_needs_no_colours(self, runs):
        told = paceline("explain", "Burdened", cwd=runs).stdout
        bars = [line for line in told.splitlines() if line.startswith("worker0 ")]
        assert "...." in bars[0]
        assert "\x1b" not in told

    def test_gives_the_same_as_json(self, runs):
        told = json.loads(paceline("explain", "Burdened", "--json", cwd=runs).stdout)
        assert told["verdict"]["where"] == "worker1"
        assert told["suggestions"][0]["name"] == "straggler"
        assert set(told["parts"]) == {"worker0", "worker1"}

    def test_a_failed_run_is_explained_as_far_as_it_got(self, runs):
        told = paceline("explain", "Poisoned", cwd=runs)
        assert told.returncode == 0
        assert "failed: " in told.stdout
        assert "the run did not finish" in told.stdout

    def test_a_run_that_is_not_there_is_named(self, tmp_path):
        told = paceline("explain", "nothing", cwd=tmp_path)
        assert told.returncode != 0
        assert "no such run" in told.stderr
