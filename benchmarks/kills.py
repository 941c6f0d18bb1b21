"""LeNet as benchmarks of faults train it, and what the same run is worth undisturbed."""

from __future__ import annotations

from typing import Any, Final

from paceline.outcome.results import Result

FIELDS: Final[dict[str, Any]] = {
    "workload": {"name": "lenet-mnist", "subset": "tenth"},
    # At the workload's own rate of 0.05 asynchronous workers do not learn, disturbed or not.
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
}
# An undisturbed run has learned by then: a longer one would only take longer.
LONGEST_S: Final = 120.0
# Of ten classes: below this a run has not learned them.
_LEARNED: Final = 0.5
_ONE_POINT: Final = 0.01


def problems(name: str, disturbed: Result, undisturbed: Result) -> list[str]:
    """Print the accuracy of both, and say what is wrong with it."""
    struck, whole = (each.test_accuracy or 0.0 for each in (disturbed, undisturbed))
    print(f"  test accuracy {_shown(disturbed)}; undisturbed {_shown(undisturbed)}")
    if whole < _LEARNED:
        return [f"{name}: it does not learn undisturbed"]
    below = whole - struck
    return [f"{name}: {100 * below:.2f} points below undisturbed"] if below > _ONE_POINT else []


def _shown(result: Result) -> str:
    percent = 100 * (result.test_accuracy or 0.0)
    return f"{percent:.2f} % after {result.global_steps} updates in {result.train_s or 0.0:.0f} s"
