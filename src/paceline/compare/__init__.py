"""A comparison: the same training under several strategies, in turns, nothing run twice.

`specs` says which runs there are, `same_threads` gives all workers as many threads, `contest`
carries the runs out, and `comparison` says what came of them.
"""

from paceline.compare.comparison import Comparison, carry_out
from paceline.compare.contest import BUDGET_S, Contest, Repeats, Standing
from paceline.compare.same_threads import with_same_threads
from paceline.compare.specs import (
    DEFAULT_STRATEGIES,
    DEFAULT_WORKERS,
    GRID,
    best_tuned,
    check_tunable,
    sides,
    tunings,
)

__all__ = [
    "BUDGET_S",
    "DEFAULT_STRATEGIES",
    "DEFAULT_WORKERS",
    "GRID",
    "Comparison",
    "Contest",
    "Repeats",
    "Standing",
    "best_tuned",
    "carry_out",
    "check_tunable",
    "sides",
    "tunings",
    "with_same_threads",
]
