"""A worker's steps, one at a time: load, compute, exchange, and rest where the driver says.

`Workload.train` drives it. Nothing here may cost more than a fraction of a microsecond per step;
above 30 attributes Python 3.11 shares no keys between instances, and each lookup takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, final

from torch import Tensor

from paceline.compute.base import Compute
from paceline.engine.feed import Feed
from paceline.engine.limits import NEVER, Limits
from paceline.engine.row_writer import RowWriter
from paceline.errors import LoopError, StateError
from paceline.spec import RunSpec
from paceline.strategies.base import Member
from paceline.training.replica import Replica
from paceline.training.session import Session
from paceline.training.shares import Share
from paceline.training.state import State, Stateful, StateReader, attributes
from paceline.workloads.base import Batch

_NEXT_BATCH: Final = "next_batch"
_COMPUTE: Final = "compute"
_EXCHANGE: Final = "exchange"
_PAUSE: Final = "pause"

_KEPT: Final = ("num_steps", "last", "_num_extra", "num_before")


@final
class WorkerSession(Session, Stateful):
    """The session of one worker of a run."""

    def __init__(
        self,
        spec: RunSpec,
        *,
        feed: Feed,
        replica: Replica,
        member: Member,
        compute: Compute,
        rows: RowWriter,
        rest: Callable[[int], bool],
    ) -> None:
        """`rest` takes the progress, waits at a gate, and gives whether training ends."""
        self.model = replica.model
        self.num_steps = 0
        self.last = not member.starts
        self._turn = _NEXT_BATCH
        self._batch_rows = feed.order.batch
        self._limits = Limits.of(spec, feed.order)
        self._most_steps = self._limits.worker_steps
        # Batches beyond one per step, and the losses of those that the step has now.
        self._num_extra = 0
        self.num_before = 0
        """Batches that each of the others had taken when this worker came."""
        self._parts: list[float] = []
        self._interval_ns = int(spec.record.interval_s * spec.dilation * 1e9)
        self._next_row_ns = 0
        self.rest_at: float = NEVER
        """At which progress to rest next: the driver says so."""
        self._batches = feed.batches()
        # The next batch with its rows, where it was gathered while an exchange was under way.
        self._ahead: tuple[Batch, Tensor | None, Tensor | None] | None = None
        if rows.profile is not None:
            self._batches = rows.profile.over(self._batches)
        elif feed.gathers_early:
            member.meanwhile = self._gather
        self._rows: Tensor | None = None
        self._next_rows: Tensor | None = None
        self._bring = replica.bringer(member.pull)
        self._member = member
        self._gradients = compute.gradients
        self._accumulate = compute.accumulate
        self._wishes_last = False
        self._row_writer = rows
        self._recorder = rows.recorder
        self._line = rows.line
        self._load = rows.recorder.loading
        self._computing = rows.recorder.computing
        self._exchanging = rows.recorder.exchanging
        self._rest = rest

    @property
    def num_batches(self) -> int:
        """How many batches this worker's steps took; one each, unless a loop says otherwise."""
        return self.num_steps + self._num_extra

    @property
    def num_taken(self) -> int:
        """Up to which of its batches this worker is: also those that it was not there for."""
        return self.num_before + self.num_batches

    @property
    def num_samples(self) -> int:
        """How many rows of training data this worker's steps took."""
        return self.num_batches * self._batch_rows

    def next_batch(self) -> Batch:
        if self._turn != _NEXT_BATCH or self.last:
            raise self._out_of_turn(_NEXT_BATCH)
        ahead = self._ahead
        if ahead is None:
            with self._load:
                ahead = next(self._batches)
        self._ahead = None
        batch, self._rows, self._next_rows = ahead
        self._turn = _COMPUTE
        return batch

    def _gather(self) -> None:
        """Load the next batch while an exchange waits for others, which costs nobody anything.

        The position in the order of rows is that of the steps done, so a state does not know of it.
        """
        if self._ahead is not None or self._wishes_last:
            return
        load, exchanging = self._load, self._exchanging
        with load:
            self._ahead = next(self._batches)
        exchanging.total_ns -= load.ended_ns - load.began_ns

    def compute(self, batch: Batch, *, more: bool = False) -> float:
        if self._turn != _COMPUTE:
            raise self._out_of_turn(_COMPUTE)
        if more:
            return self._compute_part(batch)
        with self._exchanging:
            self._wishes_last = wishes_last = self._wants_last()
            self._member.begin(last=wishes_last)
            if self._rows is not None:
                self._bring(self._rows)
            if self._next_rows is not None:
                self._member.fetch_ahead(self._next_rows)
        with self._computing:
            loss = self._gradients(batch)
            self._recorder.losses.append(loss)
        self._turn = _EXCHANGE
        if self._parts:
            self._note_mean_loss(loss)
        return loss

    def _compute_part(self, batch: Batch) -> float:
        """Compute one of several batches of a step; it begins with the last of them."""
        if self._rows is not None:
            raise LoopError(
                "session.compute(batch, more=True): a model with a table of rows takes one batch "
                "per step, since each touches rows of its own"
            )
        with self._computing:
            loss = self._accumulate(batch)
        self._parts.append(loss)
        self._num_extra += 1
        self._most_steps -= self._limits.counts_batches
        self._turn = _NEXT_BATCH
        return loss

    def _note_mean_loss(self, loss: float) -> None:
        """A step has one loss: the mean over its batches."""
        self._recorder.losses[-1] = (sum(self._parts) + loss) / (len(self._parts) + 1)
        self._parts.clear()

    def exchange(self) -> None:
        if self._turn != _EXCHANGE:
            raise self._out_of_turn(_EXCHANGE)
        exchanging = self._exchanging
        with exchanging:
            self.last = self._member.exchange(last=self._wishes_last)
        self.num_steps += 1
        self._turn = _PAUSE
        if exchanging.ended_ns >= self._next_row_ns:
            self._next_row_ns = exchanging.ended_ns + self._interval_ns
            self._row_writer.write(self.num_samples)

    def pause(self) -> None:
        if self._turn != _PAUSE:
            raise self._out_of_turn(_PAUSE)
        self._turn = _NEXT_BATCH
        self.rest_if_due()

    def rest_if_due(self) -> None:
        """Rest where the driver says. Who comes where others rest does so before its first step."""
        wanted = self._line.rest_wanted
        if wanted is not None:
            self.rest_at, self._line.rest_wanted = wanted, None
        shared = self._member.global_steps
        progress = self.num_steps if shared is None else shared
        if progress >= self.rest_at and not self.last:
            self.rest_at = NEVER
            self._row_writer.write(self.num_samples)
            self.last = self._rest(progress)

    def stop(self) -> None:
        self._most_steps = 0

    def take_over(self, shares: Sequence[Share], *, looks_ahead: bool) -> bool:
        """Make as many steps more as these ask for; returns False where this one is the last.

        So it does in the last but one where the feed `looks_ahead`: what it has loaded for the step
        after the last is of no share.
        """
        is_too_late = self.num_steps + 1 + looks_ahead > self._most_steps
        if self.last or self._wishes_last or is_too_late:
            return False
        self._most_steps += self._num_batches_of(shares)
        return True

    def _num_batches_of(self, shares: Sequence[Share]) -> int:
        """How many steps come with shares, where a run ends by its rows."""
        limits = self._limits
        if not limits.counts_batches:
            return 0
        return sum(each.num_before(limits.worker_steps) for each in shares)

    def enter(self, num_done: int, *, is_over: bool, shares: Sequence[Share] = ()) -> None:
        """Begin after so many steps that others have made; perhaps they have come to their end.

        `shares` are what it takes batches of, where these are not its own alone.
        """
        self.last = is_over
        self.num_before = num_done
        self._most_steps -= num_done
        if shares and self._limits.counts_batches:
            self._most_steps = self._num_batches_of(shares)

    def finish(self) -> None:
        """Check that a loop came to its end, and write the last row."""
        if not self.last:
            raise LoopError(
                f"the training loop ended after {self.num_steps} steps, before its session did: "
                "loop until session.last; to end earlier, call session.stop() before the last step"
            )
        self._row_writer.write(self.num_samples)

    def state(self) -> State:
        if self._parts or self._turn not in (_NEXT_BATCH, _PAUSE):
            raise StateError("session", repr(self._turn), "a state is taken between two steps")
        return attributes(self, *_KEPT)

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)
        self._most_steps -= self._num_extra * self._limits.counts_batches + self.num_before

    def _wants_last(self) -> bool:
        """Whether this worker wishes the step it begins to be its last."""
        limits = self._limits
        if self._line.stop_wanted:
            return True
        if self.num_steps + 1 >= self._most_steps and not self._takes_over_now():
            return True
        shared = self._member.global_steps
        if shared is not None and shared + 1 >= limits.global_steps:
            return not self._member.limits_steps
        return limits.seconds is not math.inf and self._row_writer.clock.now_s() >= limits.seconds

    def _takes_over_now(self) -> bool:
        """Whether the driver has just said that there are rows of another to take over."""
        self._line.poll()
        return self.num_steps + 1 < self._most_steps

    def _out_of_turn(self, called: str) -> LoopError:
        if self.last and self._turn == _NEXT_BATCH:
            return LoopError(f"session.{called}() was called after the last step: {_ORDER}")
        return LoopError(
            f"session.{called}() was called where session.{self._turn}() is next: {_ORDER}"
        )


_ORDER: Final = (
    "a step is next_batch(), compute(batch), exchange(), pause(), while not session.last"
)
