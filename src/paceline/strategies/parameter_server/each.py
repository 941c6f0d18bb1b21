"""Every push is an update of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from paceline.strategies.parameter_server.application import Application, busy
from paceline.strategies.parameter_server.link import (
    BARE,
    DECIDED,
    KEPT,
    LAST,
    REFUSED,
    RELEASE,
    WAIT,
    WORD,
    Arrival,
)
from paceline.training.state import State, StateReader, attributes, by_number, whole_numbers

if TYPE_CHECKING:
    from paceline.strategies.parameter_server.link import Greeting
    from paceline.strategies.parameter_server.rules import Admission
    from paceline.strategies.parameter_server.server_parameters import ServerParameters

_KEPT: Final = ("keep", "_admission", "_num_begun", "_num_leaves")
_UNKNOWN: Final = -1  # the number of a push of which none comes any more
_KINDS: Final = WORD | BARE | REFUSED
"""Flags that say what an arrival is: the word along with values has only `WORD` of them."""


@final
@dataclass(slots=True)
class _Push:
    """The newest push of a worker."""

    number: int
    word: int | None = None
    """The flags that came with its word, if it has come."""
    update: int = 0
    """Which update it is, once something of it was applied."""
    kept: list[Arrival] = field(default_factory=list)
    """Chunks that came before the word, and wait for it."""
    num_left: int = 0
    """How many of its chunks are not answered."""
    serial: int = 1
    """Which push of its worker it is."""
    done: set[int] = field(default_factory=set)
    """Chunks that were applied, or refused: one that is sent again is answered, and no more."""
    is_counted: bool = False
    """Whether all of it is in the snapshot that the server went back to."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it is applied, or refused."""
        return self.word is not None and not self.num_left

    def begin(self, number: int, num_chunks: int) -> None:
        """Become the worker's next push: there is one in every step, so none is made anew."""
        self.number, self.num_left = number, num_chunks
        self.word, self.update, self.is_counted = None, 0, False
        self.kept.clear()
        self.done.clear()
        self.serial += 1


@final
class Each(Application):
    """Every push is an update of its own, applied when it arrives.

    Where gradients are refused `whole`, chunks that come before the word wait for it; else each is
    applied at once, and one that is refused is left out by itself.
    """

    def __init__(
        self,
        keep: ServerParameters,
        admission: Admission,
        starters: Sequence[int],
        most_steps: int | None,
        *,
        whole: bool = True,
    ) -> None:
        self.keep = keep
        self._admission = admission
        self._most_steps = most_steps
        self._whole = whole
        self._num_chunks = len(keep.chunks)
        # Every worker that starts has leave to make one step; the run ends when all are used up.
        self._num_leaves = len(starters)
        self._holders = set(starters)
        self._num_begun = 0
        self._pushes: dict[int, _Push] = {}
        self._waiting: set[int] = set()

    def take(self, arrival: Arrival) -> None:
        worker, flags = arrival.worker, arrival.flags
        push = self._pushes.get(worker)
        if push is None:
            push = self._pushes[worker] = _Push(_UNKNOWN, serial=0)
        if push.number != arrival.push:
            push.begin(arrival.push, self._num_chunks)
            if self._num_chunks == 1 and flags & _KINDS == WORD:
                self._take_at_once(push, arrival)
                return
        if flags & WORD and push.word is None:
            self._hear(push, arrival)
        if flags & BARE and flags & WORD:
            return
        if push.word is None and self._whole:
            push.kept.append(arrival)
        elif push.num_left:
            self._apply(push, arrival)

    def _take_at_once(self, push: _Push, arrival: Arrival) -> None:
        """Take a word along with the only chunk there is: the way of every push of a small model.

        What `_hear` and `_apply` would do, without asking what was kept, is left, or came before.
        """
        worker, keep = arrival.worker, self.keep
        keep.note_push(arrival)
        push.word, push.num_left = arrival.flags, 0
        self._learn(push, arrival)
        keep.answer(worker, arrival.chunk, self._complete(worker, push) | DECIDED)
        if self._waiting:
            self._release()

    def _hear(self, push: _Push, arrival: Arrival) -> None:
        """A push's word is in: what waited for it is applied, or nothing is."""
        push.word = arrival.flags
        self.keep.note_push(arrival)
        if arrival.flags & REFUSED:
            push.kept.clear()
            push.num_left = 0
            self.keep.answer_all(arrival.worker, self._complete(arrival.worker, push))
            self._release()
            return
        if push.kept:
            # First layers first: their parameters are needed first.
            kept = sorted(push.kept, key=lambda each: each.chunk.start)
            push.kept.clear()
            self._apply_kept(push, kept)
        elif not push.num_left:  # no answer is left that could tell it
            self.keep.decide(arrival.worker, self._complete(arrival.worker, push))
            self._release()

    def _apply_kept(self, push: _Push, kept: Sequence[Arrival]) -> None:
        """Apply what came before the word."""
        if len(kept) == push.num_left and self.keep.link.decides_first:
            self._apply_whole(push, kept)
            return
        for each in kept:
            self._apply(push, each)

    def _apply_whole(self, push: _Push, arrivals: Sequence[Arrival]) -> None:
        """Apply all of a push and say so in the first answer: its worker goes on with that."""
        worker = arrivals[0].worker
        for each in arrivals:
            self._add(push, each)
        flags = self._complete(worker, push) | DECIDED
        for each in arrivals:
            self.keep.answer(worker, each.chunk, flags)
            flags = 0
        self._release()

    def _add(self, push: _Push, arrival: Arrival) -> None:
        """Apply a chunk, unless it is refused by itself."""
        index = arrival.chunk.index
        if not arrival.flags & REFUSED and index not in push.done:
            self._learn(push, arrival)
        push.done.add(index)
        push.num_left -= 1

    def _learn(self, push: _Push, arrival: Arrival) -> None:
        """Apply what has come; something of its push is then part of an update."""
        keep = self.keep
        if not push.update:
            self._begin(push)
        keep.apply(arrival.chunk, arrival.gradient, push.update)
        if arrival.rows is not None and arrival.row_gradients is not None:
            keep.apply_rows(arrival.rows, arrival.row_gradients, push.update)

    def _apply(self, push: _Push, arrival: Arrival) -> None:
        """Apply a chunk, unless it is refused by itself, and answer it."""
        worker, keep = arrival.worker, self.keep
        self._add(push, arrival)
        if push.num_left or push.word is None:
            keep.answer(worker, arrival.chunk, 0)
            return
        flags = self._complete(worker, push)
        keep.answer(worker, arrival.chunk, flags | DECIDED)
        self._release()

    def _begin(self, push: _Push) -> None:
        """Count the push; chunks of several pushes may be under way at once."""
        self._num_begun += 1
        push.update = self._num_begun

    def _complete(self, worker: int, push: _Push) -> int:
        """The push is applied whole: may its worker go on?"""
        assert push.word is not None
        is_refused = not push.update
        if not is_refused:
            self._count(push)
        elif not push.is_counted:
            self.keep.tally.refused += 1
        # A refused push used nothing up, nor did one that was counted before.
        may_go = worker in self._holders if push.is_counted else is_refused or self._grant()
        if may_go and not push.word & LAST:
            if self._admission.complete(worker):
                return 0
            self._waiting.add(worker)
            return WAIT
        self._holders.discard(worker)
        self._admission.leave(worker)
        return LAST

    def _count(self, push: _Push) -> None:
        self.keep.version += 1
        self.keep.tally.updates += 1
        push.update = 0

    def _grant(self) -> bool:
        """Give leave for one more step, if there is one."""
        if self._most_steps is not None and self._num_leaves >= self._most_steps:
            return False
        self._num_leaves += 1
        return True

    def _release(self) -> None:
        """Let go who waited and no longer has to."""
        for worker in self._admission.released():
            self._waiting.discard(worker)
            self.keep.answer_all(worker, RELEASE)

    def pull(self, arrival: Arrival) -> None:
        flags = WAIT if arrival.worker in self._waiting else 0
        if arrival.worker not in self._holders:  # one that came when no step was left for it
            flags |= LAST
        if arrival.flags & REFUSED:  # `STAND`
            self.keep.decide(arrival.worker, flags | KEPT)
        else:
            self.keep.answer_all(arrival.worker, flags)

    def join(self, worker: int) -> bool:
        if not self._grant():
            return False
        self._holders.add(worker)
        self._admission.join(worker)
        return True

    def num_pushes(self, worker: int) -> int:
        push = self._pushes.get(worker)
        if push is None:
            return 0
        return push.serial - (not (push.is_whole or push.update))

    def leave(self, worker: int) -> None:
        push = self._pushes.pop(worker, None)
        if push is not None and push.update:  # something of it was applied: that counts
            self._count(push)
        elif worker in self._holders:  # others may use its leave
            self._num_leaves -= 1
        self._holders.discard(worker)
        self._waiting.discard(worker)
        self._admission.leave(worker)
        self._release()

    def state(self) -> State:
        kept = sum(bool(each.kept) for each in self._pushes.values())
        if kept or self._num_begun != self.keep.version:
            raise busy(f"{kept + self._num_begun - self.keep.version} pushes")
        return {
            **attributes(self, *_KEPT),
            "waiting": whole_numbers(sorted(self._waiting)),
            "holders": whole_numbers(sorted(self._holders)),
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)
            self._waiting = set(fields.whole_numbers("waiting"))
            self._holders = set(fields.whole_numbers("holders"))

    def snapshot(self) -> State:
        """Give also which chunks of pushes that are under way were applied."""
        partial = {worker: push for worker, push in self._pushes.items() if push.update}
        whole = {worker: e.serial - (not e.is_whole) for worker, e in self._pushes.items()}
        return {
            **attributes(self, "keep", "_admission"),
            "whole": by_number(whole),
            "partial": {str(worker): whole_numbers(e.done) for worker, e in partial.items()},
        }

    def come_back(
        self, snapshot: State | None, workers: Collection[int], anew: Collection[int] = ()
    ) -> None:
        self._pushes, self._waiting, self._holders = {}, set(), set()
        admission = None
        if snapshot is not None:
            with StateReader(snapshot) as fields:
                fields.part("keep", self.keep)
                admission = fields.table("admission")
                self._load_pushes(fields.counts_by_number("whole"), fields.table("partial"))
        self._num_begun = self._num_leaves = self.keep.version
        for push in self._pushes.values():
            if push.done:
                self._grant()
                self._begin(push)
        self._admission.come_back(admission, {*workers, *self._pushes})
        for worker in {*self._pushes, *anew} - (set(workers) - set(anew)):
            self.leave(worker)
        for worker in anew:
            self._admission.join(worker)

    def _load_pushes(self, whole: Mapping[int, int], partial: State) -> None:
        for worker, serial in whole.items():
            self._pushes[worker] = _Push(_UNKNOWN, serial=serial, word=0)
        with StateReader(partial) as fields:
            for name in partial:
                push, done = self._pushes[int(name)], set(fields.whole_numbers(name))
                push.serial, push.word, push.num_left, push.done = push.serial + 1, None, 1, done

    def greet(self, greeting: Greeting) -> None:
        """What the worker sends again is not applied again, be it in the snapshot whole or in part.

        Of a push that it does not send again, the part in the snapshot counts.
        """
        worker, num_decided = greeting.worker, greeting.num_decided
        push = self._pushes.get(worker) or _Push(_UNKNOWN, serial=0, word=0)
        num_before = push.serial - (not push.is_whole)
        is_again = greeting.is_pending and push.serial == num_decided + 1
        if push.update and not is_again:
            self._count(push)
        is_held = bool(push.update)
        self._pushes[worker] = self._met(push, greeting, is_again=is_again)
        self._admission.greet(worker, num_decided - num_before, waits=greeting.waits)
        if greeting.leaves or not (is_held or worker in self._holders or self._grant()):
            self._holders.discard(worker)
            self._admission.leave(worker)
        else:
            self._holders.add(worker)
        if greeting.waits:
            self._waiting.add(worker)
        self._release()

    def _met(self, push: _Push, greeting: Greeting, *, is_again: bool) -> _Push:
        """Give the push that the worker's next chunks belong to, or come after."""
        if not is_again:
            return _Push(_UNKNOWN, serial=greeting.num_decided, word=0)
        chunks = range(len(self.keep.chunks))
        return _Push(
            greeting.push,
            update=push.update,
            num_left=len(chunks),
            serial=push.serial,
            done=set(chunks) if push.is_whole else push.done,
            is_counted=push.is_whole,
        )

    def adopt(self, state: State) -> None:
        self.keep.adopt(StateReader(state).table("keep"))
        self._num_begun = self.keep.version
        self._num_leaves += self.keep.version
