"""What one slow node costs each mode: is sync exposed to stragglers? (Jin et al., claim S3)."""

from __future__ import annotations

from typing import Final

from paceline.store.stored import StoredRun
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, median, of, spread

GROUP: Final = "unequal"
_MODES: Final = ("ps-sync", "ps-async")
_WHOLE: Final = 1.0
_QUARTER: Final = 0.25


def stragglers(evidence: Evidence) -> Judged:
    """Judge whether a slow node costs sync more than async, both at equal global steps.

    Raises `Untestable` where nothing of it is in the variant, or no node could be made slow.
    """
    if not evidence.planned(GROUP, "strategy"):
        raise Untestable("tested by --full only")
    sync, free = (_times_as_long(evidence, each) for each in _MODES)
    is_exposed, tie = above(sync, free)
    measured = (
        "with a quarter of a processor on node 2 the same steps take "
        f"{spread(sync, '.2f')} times as long in sync, {spread(free, '.2f')} times in async"
    )
    return judged(is_exposed, measured, tie)


def _times_as_long(evidence: Evidence, strategy: str) -> list[float]:
    """By what the time of equal nodes is multiplied, each repetition with a slow one."""
    equal, slow = (
        of(evidence.need(GROUP, strategy=strategy, node2=cpus), _capped_s)
        for cpus in (_WHOLE, _QUARTER)
    )
    return [each / median(equal) for each in slow]


def _capped_s(run: StoredRun) -> float | None:
    """Seconds of training; raises `Untestable` where the node could use as much as it liked."""
    refused = [each for each in run.result.warnings if "cluster.cpus" in each]
    if refused:
        raise Untestable(refused[0])
    return run.result.train_s
