"""A slow rank hides in the others' waiting: real runs, one rank's backward pass 200 ms longer."""

from __future__ import annotations

import dataclasses

import pytest

import paceline
from paceline.spec import RunSpec
from paceline.testing.workloads import Burdened
from paceline.verdict import judge


def verdict_of(tmp_path, strategy: str, slow_rank: int):
    spec = RunSpec.from_table(
        {
            "workload": Burdened(slow_rank=slow_rank, slow_backward_ms=200),
            "strategy": {"name": strategy},
            "num_workers": 3,
            "worker_steps": 5,
            "record": {"tensorboard": False, "model": False},
        }
    )
    result = paceline.run(spec, out=tmp_path)
    # Other tests may fill the machine, and a verdict would then be about them.
    return judge(dataclasses.replace(result, host_cpu_percent=None))


class TestHiddenStraggler:
    @pytest.mark.parametrize("strategy", ["ring", "ps-sync", "ddp"])
    def test_is_named(self, tmp_path, strategy):
        verdict = verdict_of(tmp_path, strategy, slow_rank=1)
        assert (verdict.kind, verdict.where) == ("straggler", "worker1")

    @pytest.mark.thorough
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("strategy", ["ring", "ps-sync", "ddp", "ps-async", "ps-ssp"])
    def test_is_named_every_time(self, tmp_path, strategy):
        for number in range(20):
            rank = number % 3
            verdict = verdict_of(tmp_path, strategy, rank)
            assert (verdict.kind, verdict.where) == ("straggler", f"worker{rank}")
