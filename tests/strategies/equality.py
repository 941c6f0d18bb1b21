"""Real models under a strategy that promises to equal `single`: subclass and set `strategy`.

`StrategyConformance` checks the same promise on a model of 82 parameters, on all clusters. This is
about arithmetic that only real models have: convolutions, pooling, tens of thousands of values.
"""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

import paceline
from paceline.clusters.inline import Inline
from paceline.outcome.results import Result
from paceline.strategies.base import Strategy
from paceline.testing.strategies import (
    OPTIMIZERS,
    QUIET,
    STEPS,
    alone,
    assert_norm_close,
    assert_parameters_close,
)
from paceline.training.optim import Adam, Optimizer, Sgd
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist
from tests.sharing import run

# Rates at which 50 steps of LeNet in float32 do not blow a rounding up a thousandfold.
IN_FLOAT32 = (Sgd(lr=0.05), Sgd(lr=0.05, momentum=0.9))

# The small model of the conformance suite has all of them every time.
_FEW = (Sgd, Adam)
_WITH_FEW_FIRST = [
    each if type(each) in _FEW else pytest.param(each, marks=pytest.mark.thorough)
    for each in OPTIMIZERS
]

real_models = pytest.mark.parametrize(
    "workload",
    [LogisticMnist(subset="tenth"), LenetMnist(subset="tenth")],
    ids=lambda each: each.name,
)


class EqualsSingle:
    """N workers at batch B give what one gives at N times B, whatever model and optimizer."""

    strategy: ClassVar[Strategy]
    num_workers: ClassVar[int] = 3

    def spec(self, workload: Workload, optimizer: Optimizer, dtype: str) -> paceline.RunSpec:
        return paceline.RunSpec(
            workload=workload,
            strategy=self.strategy,
            cluster=Inline(),
            optimizer=optimizer,
            num_workers=self.num_workers,
            batch=4,
            worker_steps=STEPS,
            dtype=dtype,
            threads=1,
            eval_samples=10,
            record=QUIET,
        )

    @real_models
    @pytest.mark.parametrize("optimizer", _WITH_FEW_FIRST, ids=str)
    def test_in_float64_every_parameter_is_that_of_one_worker(
        self,
        workload: Workload,
        optimizer: Optimizer,
        tmp_path: Path,
        once: Callable[[paceline.RunSpec], Result],
    ):
        spec = self.spec(workload, optimizer, "float64")
        ours = run(spec, out=tmp_path)
        assert ours.global_steps == STEPS
        assert_parameters_close(ours, once(alone(spec)), tolerance=1e-9)

    @real_models
    @pytest.mark.parametrize("optimizer", IN_FLOAT32, ids=str)
    def test_in_float32_they_are_those_of_one_worker_but_for_roundings(
        self,
        workload: Workload,
        optimizer: Optimizer,
        tmp_path: Path,
        once: Callable[[paceline.RunSpec], Result],
    ):
        spec = self.spec(workload, optimizer, "float32")
        ours = run(spec, out=tmp_path)
        assert_norm_close(ours, once(alone(spec)), tolerance=1e-5)
