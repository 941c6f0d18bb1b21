"""When all workers rest next, and for what: an evaluation, a checkpoint, or both.

Workers rest at a progress and never at a moment: those that step together have to agree on the
step, and every worker knows its progress without a word in a step. A checkpoint every so many
seconds is therefore planned as steps, from how many were made since the last rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from paceline.parts import Every
from paceline.spec import RunSpec
from paceline.store.checkpoints import Manifest
from paceline.workloads.order import Order

# How much further than the last stretch the next one may go while the pace is not known well.
_MOST_GROWTH: Final = 4
# A rest that comes this much of its time early is good enough for a checkpoint.
_EARLY: Final = 0.1


@final
@dataclass(frozen=True)
class Due:
    """What the workers rest for."""

    evaluation: bool
    checkpoint: bool


def agenda_of(spec: RunSpec, order: Order, resumed: Manifest | None) -> Agenda:
    """Plan a run from its beginning, or from a checkpoint on."""
    return Agenda(
        evaluate_every=spec.evaluate_every(order),
        keep_every=spec.keep_every,
        progress=0 if resumed is None else resumed.progress,
        time_s=0.0 if resumed is None else resumed.time_s,
        next_evaluation=None if resumed is None else resumed.next_evaluation,
    )


@final
class Agenda:
    """Owned by the driver; workers are told the next progress at which they rest."""

    def __init__(
        self,
        *,
        evaluate_every: int | None,
        keep_every: Every | None = None,
        progress: int = 0,
        time_s: float = 0.0,
        next_evaluation: int | None = None,
    ) -> None:
        """`progress` and `time_s` are those that training begins with."""
        self._evaluate_every = evaluate_every
        self.next_evaluation = next_evaluation
        if next_evaluation is None and evaluate_every is not None:
            self.next_evaluation = progress + evaluate_every
        self._keep_every = keep_every
        self._progress = progress
        self._time_s = self._kept_s = time_s
        self._next_look: int | None = None
        self._once: int | None = None
        if keep_every is not None:
            self._next_look = progress + (keep_every.steps or 1)

    @property
    def rest_at(self) -> int | None:
        """At which progress all workers rest next."""
        planned = (self.next_evaluation, self._next_look, self._once)
        return min((each for each in planned if each is not None), default=None)

    def rest_once(self, progress: int) -> None:
        """Have all rest at this progress at the latest; their next rest is for a checkpoint."""
        self._once = progress

    def arrive(self, progress: int, time_s: float) -> Due:
        """All rest; the furthest at this progress. Says what is due, and plans the next rest."""
        is_kept_anyway = self._once is not None
        is_kept = self._is_checkpoint_due(progress, time_s) or is_kept_anyway
        due = Due(self._is_evaluation_due(progress), is_kept)
        self._once = None
        self._progress, self._time_s = progress, time_s
        return due

    def _is_evaluation_due(self, progress: int) -> bool:
        if self.next_evaluation is None or progress < self.next_evaluation:
            return False
        assert self._evaluate_every is not None
        self.next_evaluation += self._evaluate_every
        return True

    def _is_checkpoint_due(self, progress: int, time_s: float) -> bool:
        every = self._keep_every
        if every is None or self._next_look is None:
            return False
        if every.steps is not None:
            if progress < self._next_look:
                return False
            self._next_look = progress + every.steps
            return True
        assert every.seconds is not None
        is_due = time_s - self._kept_s >= (1 - _EARLY) * every.seconds
        if is_due:
            self._kept_s = time_s
        self._next_look = progress + self._stretch(progress, time_s, every.seconds)
        return is_due

    def _stretch(self, progress: int, time_s: float, every_s: float) -> int:
        """How many steps there are until the next checkpoint is due, at the pace since the last
        rest.
        """
        made, took_s = max(1, progress - self._progress), max(1e-6, time_s - self._time_s)
        left_s = self._kept_s + every_s - time_s
        return max(1, min(_MOST_GROWTH * made, round(left_s * made / took_s)))
