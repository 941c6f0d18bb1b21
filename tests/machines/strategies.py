"""What each strategy comes to on three hosts, beside the same run on one machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import bit_equal
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.commands import QUICK
from tests.commands import paceline as command
from tests.machines.runs import SAME, assert_all_were_recorded, only_run

STEPS: Final = ("--worker-steps", 60, "--eval-samples", 200)
# Not in step, results differ from run to run: both must learn. At the learning rate of LeNet's own,
# with its momentum, three workers that are not in step diverge, on one machine as on three.
APART: Final = ("--worker-steps", 250, "--lr", 0.01)
LOGISTIC: Final = ("--worker-steps", 250)
_LEARNT: Final = 0.75

WORKLOADS: Final = ("logistic-mnist", "lenet-mnist")
IN_STEP: Final = ("ps-sync", "ring", "ddp", "ps-ssp-0")
"""Those that come to the same each time. All but `ps-ssp` are strict: they promise to."""
LEARNING: Final = ("ps-async", "ps-ssp")


def cases(*quickly: str) -> list[Any]:
    """Give every strategy with each workload; those that are not named are thorough."""
    pairs = [(each, workload) for workload in WORKLOADS for each in (*IN_STEP, *LEARNING)]
    names = {f"{strategy}-{workload}": (strategy, workload) for strategy, workload in pairs}
    assert {*quickly} <= names.keys()
    marks = {name: () if name in quickly else pytest.mark.thorough for name in names}
    return [pytest.param(*pair, id=name, marks=marks[name]) for name, pair in names.items()]


def asked_for(strategy: str, workload: str) -> tuple[object, ...]:
    """Give the options of a run."""
    if strategy == "ps-ssp-0":  # nobody ahead of anybody: with plain SGD the order does not matter
        bound = ("--set", "strategy.staleness=0", "optimizer.momentum=0")
        return ("--strategy", "ps-ssp", *STEPS, "--lr", 0.01, *bound)
    if strategy in IN_STEP:
        return ("--strategy", strategy, *STEPS)
    return ("--strategy", strategy, *(LOGISTIC if workload == "logistic-mnist" else APART))


def trusting(strategy: str) -> tuple[object, ...]:
    """Give what a strategy needs besides on other machines."""
    return ("--set", "cluster.trusted_network=true") if strategy == "ddp" else ()


def assert_as_on_one_machine(
    strategy: str, workload: str, cluster: str, there: Path, here: Path
) -> None:
    """Carry out the same run on this machine, and compare with the one that is kept in `there`."""
    local = ("--workers", 3, "--cluster", "local", *QUICK, *SAME, "cluster.transport=zmq-tcp")
    done = command("run", workload, *asked_for(strategy, workload), *local, cwd=here)
    assert done.returncode == 0, done.stderr
    runs = only_run(there).path, only_run(here).path
    assert_all_were_recorded(runs[0], cluster)
    _COMPARED.get(strategy, _both_learn)(*runs)


def _bit_equal(there: Path, here: Path) -> None:
    assert bit_equal.digests(there) == bit_equal.digests(here)


def _nearly_equal(there: Path, here: Path, off: float = 1e-5) -> None:
    ours, theirs = (load_file(run / "model.safetensors") for run in (here, there))
    for name, values in theirs.items():
        np.testing.assert_allclose(values, ours[name], rtol=off, atol=off)


def _both_learn(there: Path, here: Path) -> None:
    for run in (there, here):
        result = json.loads((run / "result.json").read_text())
        assert result["global_steps"] == 3 * 250
        assert result["test_accuracy"] > _LEARNT, run


_COMPARED: Final[dict[str, Callable[[Path, Path], None]]] = {
    "ps-sync": _bit_equal,
    "ring": _bit_equal,
    "ddp": _nearly_equal,
    # It is not strict, also with a bound of 0: each push is applied by itself, in the order of
    # arrival, which differs from run to run, on one machine too. Rounding does, and is passed on.
    "ps-ssp-0": partial(_nearly_equal, off=1e-3),
}
