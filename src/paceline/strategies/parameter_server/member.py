"""A worker's part in a parameter server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from paceline.arithmetic.exchange import chunk_bytes_of
from paceline.strategies.base import Member, Place
from paceline.strategies.parameter_server.ascending import Ascending
from paceline.strategies.parameter_server.checking import ChunkCheck
from paceline.strategies.parameter_server.cuts import Chunk, dealt
from paceline.strategies.parameter_server.finished_chunks import FinishedChunks
from paceline.strategies.parameter_server.link import (
    LAST,
    LEAVE,
    PULL,
    REFUSED,
    WAIT,
    Answer,
    Touched,
    WorkerLink,
)
from paceline.strategies.parameter_server.memory_link import SharedWorkerLink
from paceline.strategies.parameter_server.message_link import MessageWorkerLink
from paceline.strategies.parameter_server.rules import Rules
from paceline.training.finite import OF_ANOTHER, flaw_in
from paceline.training.state import State, StateReader, attributes, by_number, picked

if TYPE_CHECKING:
    from torch import Tensor, nn

# How many rows are fetched at a time when a whole table is saved.
_ROWS_AT_ONCE: Final = 1 << 20
_KEPT: Final = ("global_steps", "_must_wait", "_held_ns", "_link")
_NO_FLAW: Final[tuple[None, tuple[()]]] = (None, ())


@final
class PsMember(Member):
    """Pushes gradients to every server and continues with what they answer."""

    keeps_changes: ClassVar[bool] = False
    limits_steps: ClassVar[bool] = True
    pulled: ClassVar[tuple[str, ...]] = ("replica/parameters",)

    def __init__(
        self, place: Place, chunk_bytes: int, rules: Rules, *, overlap: bool, prefetch: bool
    ) -> None:
        self.replica = place.replica
        # Where memory is shared, a row is read from where it lies when it is needed.
        self.fetches_ahead = prefetch and place.host is None
        self.starts = place.rank in rules.starters(place.roster.worker_numbers, place.most_steps)
        self.global_steps: int = 0
        # Where an update may be complete without us, it may also have to be without others; so
        # where our push may come from before a server went back.
        may_be_left = place.servers_return or (rules.averaged or 0) < place.num_workers
        self._is_averaged = rules.averaged is not None
        self._takes_leave = self._is_averaged and may_be_left
        self._waits_for_all = rules.averaged is not None and not self._takes_leave
        self.is_looked_at = place.rank == 0
        self._checks = place.learns
        self._refusals = place.refusals
        self._staleness: Counter[int] = Counter()
        self._must_wait = False
        self._is_behind = False
        self._held_ns = 0
        self._rows: Tensor | None = None
        # The same in ascending order, and those of the next batch, where the link needs them so.
        self._sorted: Ascending | None = None
        self._ahead: Ascending | None = None
        values = place.replica.parameters
        chunk_bytes = chunk_bytes_of(values.nbytes, place.num_servers, chunk_bytes)
        cut = dealt(len(values), place.num_servers, chunk_bytes // values.element_size())
        self._link = _link(place, cut, rules)  # which may move the replica
        self._link.leaves = not self.starts
        self._gradients = self.replica.gradients.numpy()
        self._chunks = [chunk for each in cut for chunk in each]
        self._refuses_whole = rules.whole
        # Parameters that a server writes straight into the replica may not change meanwhile, and
        # who is late for an update must not copy what of the next one may be undone.
        is_written = rules.admission.exact and not rules.whole
        is_seen = place.host is not None and (is_written or self._takes_leave)
        is_cut = values.nbytes > chunk_bytes and place.replica.table is None
        # Of what a courier has under way it is not known what a server that is lost had applied.
        self.overlaps = overlap and is_cut and not is_seen and not place.servers_return
        # Parameters in shared memory are copied by the worker itself: nothing is under way.
        self.can_await = self.overlaps and place.host is None
        self._finished = FinishedChunks(self.replica, self._chunks if self.overlaps else ())
        self._check = ChunkCheck(self._gradients, self._chunks)
        self._began_ns = self._hidden_ns = 0

    @property
    def is_held(self) -> bool:
        return self._must_wait

    def enter(self) -> bool:
        is_over = bool(self._pull() & LAST)
        if is_over and self._is_averaged:  # another server may not be at its end, and wait for it
            self._link.exchange(PULL | LEAVE)
        return is_over

    def begin(self, *, last: bool) -> None:
        del last
        if self._is_behind or self._link.is_behind:
            self._is_behind = False
            self._pull()
        if self._must_wait:
            self._must_wait = False
            began_ns = monotonic_ns()
            self.global_steps = self._link.await_release().version
            self._held_ns += monotonic_ns() - began_ns

    def ready(self, parameter: nn.Parameter) -> None:
        for chunk in self._finished.note(parameter):
            if not self._began_ns:
                self._began_ns = monotonic_ns()
            self._send_early(chunk)

    def _send_early(self, chunk: Chunk) -> None:
        """Send a chunk that is finished, unless it can be of no use."""
        is_finite = not self._checks or self._check.look_at(chunk)
        if not self._refuses_whole:
            self._link.send_early(chunk, 0 if is_finite else REFUSED)
        elif not self._check.refused:
            self._link.send_early(chunk)

    def exchange(self, *, last: bool) -> bool:
        flags = LAST if last else 0
        touched = None if self._rows is None else self._touched()
        flaw, left_out = self._end_early() if self.overlaps else self._flaw(touched)
        if flaw is not None and (self._refuses_whole or len(left_out) == len(self._chunks)):
            flags |= REFUSED
        if self._waits_for_all:
            self._link.meanwhile = self.meanwhile
        answer = self._link.exchange(flags, touched, left_out)
        # Without overlap the exchange has left nothing under way.
        if self.overlaps and (not self.awaits or answer.flags & (LAST | WAIT)):
            self._link.drain()
        self._note(flaw, answer, is_refused=bool((flags | answer.flags) & REFUSED))
        self.global_steps = answer.version
        self._must_wait = bool(answer.flags & WAIT)
        is_last = bool(answer.flags & LAST)
        self._link.leaves = is_last
        if is_last and self._takes_leave:
            self._link.exchange(PULL | LEAVE)
        return is_last

    def _note(self, flaw: str | None, answer: Answer, *, is_refused: bool) -> None:
        """Count the step: as refused, as an update, or, where chunks were left out, as both."""
        if is_refused or flaw is not None:
            self._refusals.note(flaw or OF_ANOTHER, after=self._staleness.total())
        if not is_refused:
            # Below 0 where this push came too late for an update that was refused.
            self._staleness[max(0, answer.staleness)] += 1

    def await_parameters(self, parameters: Collection[nn.Parameter] | None = None) -> int:
        if parameters is None:
            self._link.drain()
            return 0
        chunks_of = self._finished.chunks_of
        return self._link.await_chunks([c for each in parameters for c in chunks_of[each]])

    def _end_early(self) -> tuple[str | None, Sequence[Chunk]]:
        """Send what is left of a step's gradients.

        Returns what is wrong with them, if anything is, and with which chunks.
        """
        if self._began_ns:
            self._hidden_ns += monotonic_ns() - self._began_ns
            self._began_ns = 0
        for chunk in self._finished.rest():
            self._send_early(chunk)
        self._finished.begin()
        return self._check.end() if self._checks else _NO_FLAW

    def _flaw(self, touched: Touched | None) -> tuple[str | None, Sequence[Chunk]]:
        """Say what is wrong with this batch's gradients, if anything is, and with which chunks."""
        if not self._checks:
            return _NO_FLAW
        if touched is not None:
            # Of a model with a table nothing is left out by itself.
            flaw = flaw_in(self._gradients, touched.gradients.numpy().reshape(-1))
            return _NO_FLAW if flaw is None else (flaw, self._chunks)
        flaw = flaw_in(self._gradients)
        if flaw is None:
            return _NO_FLAW
        for chunk in self._chunks:
            self._check.look_at(chunk)
        return flaw, self._check.end()[1]

    def pull(self, rows: Tensor) -> None:
        assert self.replica.table is not None
        self._rows = rows
        pull = self._pull_ascending if self._link.wants_ascending else self._link.pull_rows
        self.replica.table.show(pull(rows))

    def _pull_ascending(self, rows: Tensor) -> Tensor:
        ahead, self._ahead = self._ahead, None
        self._sorted = ahead if ahead is not None and ahead.rows is rows else Ascending(rows)
        return self._sorted.of_ascending(self._link.pull_rows(self._sorted.ascending))

    def fetch_ahead(self, rows: Tensor) -> None:
        if self._link.wants_ascending:
            self._ahead = Ascending(rows)
            rows = self._ahead.ascending
        self._link.fetch_ahead(rows)

    def _touched(self) -> Touched | None:
        """The rows of this batch and their gradients, where the model has a table."""
        if self._rows is None or self.replica.table is None:
            return None
        gradients = self.replica.table.window.grad
        assert gradients is not None
        if self._sorted is not None:
            return Touched(self._sorted.ascending, gradients[self._sorted.order])
        return Touched(self._rows, gradients)

    def table_values(self) -> Tensor | None:
        import torch

        table = self.replica.table
        if table is None:
            return None
        pieces = torch.arange(table.num_rows).split(_ROWS_AT_ONCE)  # type: ignore[no-untyped-call]
        return torch.cat([self._link.pull_rows(rows) for rows in pieces])

    def exchanged(self) -> Mapping[str, int]:
        link = self._link
        return {"sent_bytes": link.sent_bytes, "received_bytes": link.received_bytes}

    def counted(self) -> Mapping[str, Any]:
        return {
            **self.exchanged(),
            "held_s": self._held_ns / 1e9,
            **({"hidden_s": self._hidden_ns / 1e9} if self.overlaps else {}),
            "staleness": {str(key): count for key, count in sorted(self._staleness.items())},
        }

    def state(self) -> State:
        self._link.drain()
        if self._must_wait:
            self._link.catch_up()  # the word that it may go on would be lost with the link
        return {**attributes(self, *_KEPT), "staleness": by_number(self._staleness)}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KEPT)
            self._staleness = fields.counts_by_number("staleness")

    def adopt(self, state: State) -> None:
        with StateReader(picked(state, "global_steps")) as fields:
            fields.attributes(self, "global_steps")

    def refresh(self) -> None:
        self._is_behind = True

    def close(self) -> None:
        self._link.close()

    def regroup(self) -> None:
        self._link.look_around()

    def settle(self) -> None:
        self._link.drain()
        # The others keep what they have: to look at parameters changes nothing of their staleness.
        if self.is_looked_at:
            self._pull()

    def _pull(self) -> int:
        """Take the newest parameters; returns what the servers say beside."""
        answer = self._link.exchange(PULL)
        while self._link.is_behind:  # one that had answered was started again meanwhile
            answer = self._link.exchange(PULL)
        self.global_steps = answer.version
        self._must_wait = bool(answer.flags & WAIT)
        return answer.flags


def _link(place: Place, cut: list[list[Chunk]], rules: Rules) -> WorkerLink:
    if place.host is None:
        word_last = rules.whole and rules.averaged is None
        return MessageWorkerLink(place, cut, word_last=word_last)
    return SharedWorkerLink(place, place.host, cut, exact=rules.admission.exact)
