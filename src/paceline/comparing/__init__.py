"""A comparison: the same training under several strategies, in turns, nothing run twice.

`whole` is all of it: `specs` says which runs there are, `same_threads` gives all workers as many
threads, `contest` carries the runs out, and `comparison` says what came of them.
"""

from paceline.comparing.audience import Audience
from paceline.comparing.comparison import Comparison, carry_out
from paceline.comparing.contest import BUDGET_S, Contest, ContestStanding, Repeats
from paceline.comparing.same_threads import with_same_threads
from paceline.comparing.specs import (
    DEFAULT_STRATEGIES,
    DEFAULT_WORKERS,
    GRID,
    best_tuned,
    check_tunable,
    sides,
    tunings,
)
from paceline.comparing.whole import compare

__all__ = [
    "BUDGET_S",
    "DEFAULT_STRATEGIES",
    "DEFAULT_WORKERS",
    "GRID",
    "Audience",
    "Comparison",
    "Contest",
    "ContestStanding",
    "Repeats",
    "best_tuned",
    "carry_out",
    "check_tunable",
    "compare",
    "sides",
    "tunings",
    "with_same_threads",
]
