"""A worker's part in a parameter server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from paceline.finite import OF_ANOTHER, flaw_in
from paceline.strategies.base import Member, Place
from paceline.strategies.parameter_server.cuts import Chunk, chunks_of, server_part
from paceline.strategies.parameter_server.link import (
    LAST,
    LEAVE,
    PULL,
    REFUSED,
    WAIT,
    Touched,
    WorkerLink,
)
from paceline.strategies.parameter_server.messages import MessageWorkerLink
from paceline.strategies.parameter_server.rules import Rules
from paceline.strategies.parameter_server.shared import SharedWorkerLink

if TYPE_CHECKING:
    from torch import Tensor

# How many rows are fetched at a time when a whole table is saved.
_ROWS_AT_ONCE: Final = 1 << 20


@final
class PsMember(Member):
    """Pushes gradients to every server and continues with what they answer."""

    keeps_changes: ClassVar[bool] = False
    limits_steps: ClassVar[bool] = True

    def __init__(self, place: Place, chunk_bytes: int, rules: Rules, *, prefetch: bool) -> None:
        self.replica = place.replica
        # Where memory is shared, a row is read from where it lies when it is needed.
        self.fetches_ahead = prefetch and place.host is None
        self.starts = place.rank < rules.num_starters(place.num_workers, place.most_steps)
        self.global_steps: int = 0
        # Where an update may be complete without us, it may also have to be without others.
        self._takes_leave = rules.averaged is not None and rules.averaged < place.num_workers
        self._checks = place.learns
        self._refusals = place.refusals
        self._staleness: Counter[int] = Counter()
        self._must_wait = False
        self._held_ns = 0
        self._rows: Tensor | None = None
        self._link = _link(place, chunk_bytes, rules)  # which may move the replica
        self._gradients = self.replica.gradients.numpy()

    def begin(self, *, last: bool) -> None:
        del last
        if self._must_wait:
            self._must_wait = False
            began_ns = monotonic_ns()
            self.global_steps = self._link.await_release().version
            self._held_ns += monotonic_ns() - began_ns

    def exchange(self, *, last: bool) -> bool:
        flags = LAST if last else 0
        touched = self._touched()
        flaw = self._flaw(touched)
        if flaw is not None:
            flags |= REFUSED
        answer = self._link.exchange(flags, touched)
        if (flags | answer.flags) & REFUSED:
            self._refusals.note(flaw or OF_ANOTHER, after=self._staleness.total())
        else:
            # Below 0 where this push came too late for an update that was refused.
            self._staleness[max(0, answer.staleness)] += 1
        self.global_steps = answer.version
        self._must_wait = bool(answer.flags & WAIT)
        is_last = bool(answer.flags & LAST)
        if is_last and self._takes_leave:
            self._link.exchange(PULL | LEAVE)
        return is_last

    def _flaw(self, touched: Touched | None) -> str | None:
        """Say what is wrong with this batch's gradients, if anything is."""
        if not self._checks:
            return None
        if touched is None:
            return flaw_in(self._gradients)
        return flaw_in(self._gradients, touched.gradients.numpy().reshape(-1))

    def pull(self, rows: Tensor) -> None:
        assert self.replica.table is not None
        self._rows = rows
        self.replica.table.window = self._link.pull_rows(rows).requires_grad_()

    def fetch_ahead(self, rows: Tensor) -> None:
        self._link.fetch_ahead(rows)

    def _touched(self) -> Touched | None:
        """The rows of this batch and their gradients, where the model has a table."""
        if self._rows is None or self.replica.table is None:
            return None
        gradients = self.replica.table.window.grad
        assert gradients is not None
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
            "staleness": {str(key): count for key, count in sorted(self._staleness.items())},
        }

    def refresh(self) -> None:
        answer = self._link.exchange(PULL)
        self.global_steps = answer.version
        self._must_wait = bool(answer.flags & WAIT)


def _link(place: Place, chunk_bytes: int, rules: Rules) -> WorkerLink:
    values = place.replica.parameters
    chunks: list[list[Chunk]] = [
        chunks_of(
            server_part(len(values), place.num_servers, server),
            server,
            chunk_bytes // values.element_size(),
        )
        for server in range(place.num_servers)
    ]
    if place.host is None:
        return MessageWorkerLink(place, chunks)
    return SharedWorkerLink(place, place.host, chunks, exact=rules.admission.exact)
