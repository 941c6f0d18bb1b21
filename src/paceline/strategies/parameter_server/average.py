"""An update is the average of several gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, final

from paceline.strategies.parameter_server.application import Application, busy
from paceline.strategies.parameter_server.link import (
    BARE,
    DECIDED,
    LAST,
    LEAVE,
    REFUSED,
    VOID,
    WORD,
    Arrival,
)
from paceline.training.distinct import Distinct
from paceline.training.state import State, StateReader, attributes, whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.strategies.parameter_server.cuts import Chunk
    from paceline.strategies.parameter_server.link import Greeting
    from paceline.strategies.parameter_server.server_parameters import ServerParameters

_KEPT: Final = ("keep", "_is_over", "_stops")


@final
@dataclass(slots=True)
class _Push:
    """The newest push of a worker."""

    number: int
    is_late: bool
    arrived_ns: int = 0
    """When its word came, if it has."""
    is_void: bool = False
    """Whether it is decided that nothing of it is wanted: what is still under way is dropped."""


@final
class Average(Application):
    """An update is the average of the first `needed` gradients, added in the order of the ranks.

    A chunk's new parameters leave as soon as its gradients are in, while later chunks still
    arrive. If not every worker's word is in by then, the chunk is remembered as it was: an update
    one of whose gradients is not finite is refused whole, and undone. The parameters, and their
    version, are then what they were. So it is with an update of which something was applied, and
    one of whose workers is gone without a word.

    A push that comes when the update has its gradients is too late, and so is one on parameters
    of a version that a server which was started again is not at: it is dropped, and
    answered with the parameters of that update. So is one that waits for gradients which nobody is
    left to bring: of several servers each may have dropped another's last one.

    Without a worker that is gone an update needs one gradient less, and with one that has come one
    more, from the next update on.

    Of several servers all go back to one version. Of a push that was under way then, one may know
    what became of it, and another may not: none of them applies it. A worker's next push counts if
    it has seen the parameters that they went back to: it was answered, or has asked for them.
    """

    def __init__(
        self,
        keep: ServerParameters,
        needed: int,
        workers: Sequence[int],
        most_steps: int | None,
        *,
        is_one_of_several: bool = False,
    ) -> None:
        self.keep = keep
        self._is_one_of_several = is_one_of_several
        # Workers whose next push may be of parameters from before the servers went back.
        self._stale: set[int] = set()
        self._needed = needed
        self._num_spare = len(workers) - needed
        self._workers = set(workers)
        # Those of them that will still push.
        self._there = set(workers)
        self._joining: set[int] = set()
        self._most_steps = most_steps
        self._is_over = False
        self._stops = False
        self._went_back = False
        self._pushes: dict[int, _Push] = {}
        # Those whose push came too late, to be answered when this update is over.
        self._too_late: list[int] = []
        self._distinct = Distinct()  # keeps its memory from update to update
        self._begin_update()

    def _begin_update(self) -> None:
        self._members: list[int] = []
        self._touched: dict[int, Arrival] = {}
        self._gradients: list[dict[int, Tensor]] = [{} for _ in self.keep.chunks]
        self._num_open = len(self.keep.chunks)
        self._is_refused = False
        self._is_decided = False
        # Members that were not told yet what was decided.
        self._untold: list[int] = []

    def take(self, arrival: Arrival) -> None:
        worker = arrival.worker
        push = self._pushes.get(worker)
        if push is None or push.number != arrival.push:
            push = self._begin(arrival)
        if push.is_void:
            return
        if arrival.flags & WORD and not push.arrived_ns:
            self._hear(push, arrival)
        if push.is_late or push.is_void:
            return
        if not arrival.flags & BARE:
            gradients = self._gradients[arrival.chunk.index]
            gradients[worker] = arrival.gradient
            if len(gradients) == self._needed:
                self._close(arrival.chunk)
        if self._untold:
            self._tell()

    def _begin(self, arrival: Arrival) -> _Push:
        """A push begins: it belongs to this update, or comes too late for it."""
        worker = arrival.worker
        is_full = len(self._members) == self._needed or worker in self._joining
        is_older = arrival.version < self.keep.version
        is_newer = self._went_back and arrival.version > self.keep.version
        is_late = is_full or self._is_over or is_older or is_newer or worker in self._stale
        self._stale.discard(worker)
        push = self._pushes[worker] = _Push(arrival.push, is_late)
        if is_late:
            self.keep.tally.dropped += 1
        else:
            self._members.append(worker)
        return push

    def _hear(self, push: _Push, arrival: Arrival) -> None:
        """A worker's word is in: decide, if it was the last one."""
        worker, flags = arrival.worker, arrival.flags
        self.keep.note_push(arrival)
        push.arrived_ns = arrival.sent_ns or monotonic_ns()
        if flags & LAST:
            self._stops = True
        if flags & REFUSED:
            self.keep.tally.refused += 1
        if push.is_late:
            self._too_late.append(worker)
            self._answer_late()
            return
        self._is_refused |= bool(flags & REFUSED)
        if arrival.rows is not None and not flags & REFUSED:
            self._touched[worker] = arrival
        self._decide_if_all_spoke()

    def _decide_if_all_spoke(self) -> None:
        if self._is_decided or len(self._members) < self._needed:
            return
        arrived_ns = [self._pushes[worker].arrived_ns for worker in self._members]
        if not all(arrived_ns):
            return
        self._note_arrivals(arrived_ns)
        if self._is_refused:
            self._void(REFUSED)
            return
        self._is_decided = True
        self.keep.commit()
        if self._most_steps is not None and self.keep.version + 1 >= self._most_steps:
            self._stops = True
        self._untold = list(self._members)
        if self._num_open == 0:
            self._tell()
            self._finish_update()
            self._answer_late()

    def _tell(self) -> None:
        """Say what was decided to all members that no answer has told."""
        for worker in self._untold:
            self.keep.decide(worker, self._flags, self.keep.version + 1)
        self._untold = []

    @property
    def _flags(self) -> int:
        return LAST if self._stops else 0

    def _close(self, chunk: Chunk) -> None:
        """All gradients of a chunk are in: average, apply, answer."""
        keep, number = self.keep, self.keep.version + 1
        gradients = self._gradients[chunk.index]
        by_rank = sorted(gradients)
        if not self._is_decided:
            keep.keep_before(chunk)
        keep.apply(chunk, self._mean([gradients[worker] for worker in by_rank]), number)
        if self._touched and self._num_open == 1:
            keep.apply_rows(*self._joined_rows(len(by_rank)), number)
        self._gradients[chunk.index] = {}
        self._num_open -= 1
        flags, untold = self._flags, self._untold
        self._untold = []
        if self._num_open == 0 and self._is_decided:
            self._finish_update()
        for worker in by_rank:
            keep.answer(worker, chunk, flags | DECIDED if worker in untold else flags, number)
        self._untold += [worker for worker in untold if worker not in gradients]
        self._answer_late()

    def _mean(self, gradients: list[Tensor]) -> Tensor:
        total = gradients[0]
        if len(gradients) > 1:
            began_ns = monotonic_ns()
            for gradient in gradients[1:]:
                total.add_(gradient)
            total.div_(len(gradients))
            self.keep.tally.apply_ns += monotonic_ns() - began_ns
        return total

    def _joined_rows(self, num_present: int) -> tuple[Tensor, Tensor]:
        """Average the rows' gradients too, a row that several workers touched summed once."""
        import torch

        touched = [arrival for _, arrival in sorted(self._touched.items())]
        named = torch.cat([arrival.rows for arrival in touched if arrival.rows is not None])
        rows, positions = self._distinct(named)
        values = [arrival.row_gradients for arrival in touched]
        gradients = torch.cat([each for each in values if each is not None])
        total = gradients.new_zeros(len(rows), gradients.shape[1])
        return rows, total.index_add_(0, positions, gradients).div_(num_present)

    def _finish_update(self) -> None:
        """The update is applied whole."""
        self.keep.version += 1
        self.keep.tally.updates += 1
        self._is_over = self._stops
        self._begin_update()
        self._need()
        self._end_if_too_few()

    def _void(self, flags: int) -> None:
        """Undo this update: its workers keep the parameters that it was computed on."""
        undone, members = self.keep.undo(), self._members
        self._is_over = self._stops
        self._begin_update()
        self._need()
        for worker in members:
            self._pushes[worker].is_void = True
            for chunk in undone:
                self.keep.answer(worker, chunk, 0)
            self.keep.decide(worker, flags | VOID | self._flags)
        self._answer_late()

    def _need(self) -> None:
        """Say of how many gradients the next update is."""
        if self._joining:
            self._workers |= self._joining
            self._there |= self._joining
            self._joining = set()
        self._needed = max(1, len(self._workers) - self._num_spare)

    def _note_arrivals(self, arrived_ns: Sequence[int]) -> None:
        """Count when each member's word came."""
        tally = self.keep.tally
        first_ns, last_ns = min(arrived_ns), max(arrived_ns)
        for worker, moment_ns in zip(self._members, arrived_ns, strict=True):
            tally.late_ns[worker] += moment_ns - first_ns
            tally.wait_ns[worker] += last_ns - moment_ns
        tally.last[self._members[arrived_ns.index(last_ns)]] += 1

    def _answer_late(self) -> None:
        """Answer pushes that were dropped, unless an update is under way that may be undone.

        Where that one needs everyone, and nothing of it is applied, it waits for them; so it does
        where too few others are left, as when most of them come from before a server went back.
        """
        if not self._too_late:
            return
        num_others = len(self._there - {*self._too_late})
        needs_them = not self._num_spare or num_others < self._needed
        is_awaited = needs_them and len(self._members) < self._needed
        if self._members and not (is_awaited and self._num_open == len(self.keep.chunks)):
            return
        coming = self._joining if self._members else set()
        waiting = [each for each in self._too_late if each not in coming]
        self._too_late = [each for each in self._too_late if each in coming]
        for worker in waiting:
            self.keep.answer_all(worker, self._flags)

    def pull(self, arrival: Arrival) -> None:
        self._stale.discard(arrival.worker)
        if arrival.flags & LEAVE:
            self._expect_no_more_of(arrival.worker)
        # One that has just come may be needed for the last update.
        self.keep.answer_all(arrival.worker, LAST if self._is_over else 0)

    def join(self, worker: int) -> bool:
        self._joining.add(worker)
        if not self._members:
            self._need()
        return not self._is_over

    def leave(self, worker: int) -> None:
        self._joining.discard(worker)
        self._stale.discard(worker)
        self._workers.discard(worker)
        self._there.discard(worker)
        push = self._pushes.pop(worker, None)
        self._too_late = [each for each in self._too_late if each != worker]
        if worker in self._members:
            self._members.remove(worker)
            if self.keep.is_tentative and push is not None and not push.arrived_ns:
                self._void(REFUSED)
        self._do_without(worker)
        self._end_if_too_few()

    def _do_without(self, worker: int) -> None:
        """Complete the update without what a worker brought, of chunks that are not applied."""
        self._touched.pop(worker, None)
        self._untold = [each for each in self._untold if each != worker]
        for gradients in self._gradients:
            gradients.pop(worker, None)
        # Who is part of this update already is waited for, also where fewer would do.
        self._needed = max(len(self._members), len(self._workers) - self._num_spare, 1)
        if not self._members:
            self._give_up_update()
            return
        self._decide_if_all_spoke()
        for chunk, gradients in zip(self.keep.chunks, self._gradients, strict=True):
            if len(gradients) == self._needed:
                self._close(chunk)
        self._tell()

    def _give_up_update(self) -> None:
        """None of its workers is left: what was applied of it counts, and who is late goes on."""
        if self._is_decided and self._num_open < len(self.keep.chunks):
            self._finish_update()
        else:
            self.keep.undo()
            self._begin_update()
            self._need()
        self._answer_late()

    def state(self) -> State:
        if self._members or self._too_late:
            raise busy(f"the gradients of workers {sorted(self._members)}")
        return {**attributes(self, *_KEPT), "there": whole_numbers(sorted(self._there))}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)
            self._there = set(fields.whole_numbers("there"))

    def adopt(self, state: State) -> None:
        self.keep.adopt(StateReader(state).table("keep"))

    def snapshot(self) -> State:
        if self._members:
            raise busy(f"the gradients of workers {sorted(self._members)}")
        return attributes(self, "keep")

    def come_back(
        self, snapshot: State | None, workers: Collection[int], anew: Collection[int] = ()
    ) -> None:
        """A push is of one version, and is too late for any other: what is sent again is applied
        only if the update that it was for is not in the snapshot.
        """
        del anew
        if snapshot is not None:
            with StateReader(snapshot) as fields:
                fields.part("keep", self.keep)
        self._is_over = self._stops = False
        self._went_back = True
        self._workers = set(workers)
        self._there = set(workers)

    def greet(self, greeting: Greeting) -> None:
        if self._is_one_of_several:
            self._stale.add(greeting.worker)
        if greeting.leaves:
            self._expect_no_more_of(greeting.worker)

    def _expect_no_more_of(self, worker: int) -> None:
        """An update that waits for a worker which leaves may need one that is late instead."""
        self._there.discard(worker)
        self._end_if_too_few()
        self._answer_late()

    def _end_if_too_few(self) -> None:
        """Drop what came for an update that cannot be completed, and let its workers go.

        Where nobody is left at all, nobody waits, and somebody may come.
        """
        if not self._workers or len(self._there) >= self._needed or self._is_decided:
            return
        self._is_over = self._stops = True
        self.keep.tally.dropped += len(self._members)
        self._void(0)
