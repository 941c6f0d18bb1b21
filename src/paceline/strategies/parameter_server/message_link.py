"""The same by messages, where worker and server share no memory.

Without overlap a worker sends the next chunk only while fewer than `WINDOW` of a server's answers
are due, so no server holds more than its own part and that many chunks per worker. With it a
`Courier` sends chunks while the worker computes. A server may then hold a whole push of every
worker: of `ps-sync` where one of them is far behind, of the others until the word is in.

A worker that is released while it rests at an evaluation has its new parameters kept until it
reads them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.base import Message
from paceline.errors import StateError
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.correspondent import Correspondent
from paceline.strategies.parameter_server.courier import Courier
from paceline.strategies.parameter_server.cuts import Chunk, stops_of
from paceline.strategies.parameter_server.link import (
    BARE,
    KEPT,
    PULL,
    REFUSED,
    ROWS,
    STAND,
    WAIT,
    WORD,
    Answer,
    Touched,
    WorkerLink,
)
from paceline.strategies.parameter_server.tags import PUSHED, pack, unpack
from paceline.training.state import State, StateReader, Value, attributes

if TYPE_CHECKING:
    from torch import Tensor


WINDOW: Final = 8


@final
class MessageWorkerLink(WorkerLink):
    """Sends gradients and takes parameters through the place's channel."""

    def __init__(self, place: Place, chunks: list[list[Chunk]]) -> None:
        self._replica = place.replica
        self._channel = place.channel
        self._servers = [Correspondent(each, place) for each in chunks]
        self._by_name = {each.name: each for each in self._servers}
        self._courier = Courier(
            self._channel, self._servers, self._take, self._count_sent, holds=place.learns
        )
        self._pulled: dict[str, Tensor] = {}
        self._ahead: Tensor | None = None
        self._ahead_is_loaded = False

    def send_early(self, chunk: Chunk, flags: int = 0) -> None:
        self._courier.send(chunk, flags | BARE if flags & REFUSED else flags)

    def exchange(
        self, flags: int, touched: Touched | None = None, left_out: Collection[Chunk] = ()
    ) -> Answer:
        if self._courier.has_push and not flags & PULL:
            self._courier.finish(flags)
            return self._answer()
        self.drain()
        if touched is not None and not flags & (PULL | REFUSED):
            self._send_rows(touched)
        for server in self._servers:
            server.begin(is_push=not flags & PULL)
            self._send_what_may_go(server, flags, left_out)
        while not all(server.is_done for server in self._servers):
            server = self._take(self._channel.receive())
            if not server.is_done:
                self._send_what_may_go(server, flags, left_out)
        return self._answer()

    def _send_what_may_go(
        self, server: Correspondent, flags: int, left_out: Collection[Chunk]
    ) -> None:
        if flags & (PULL | REFUSED):
            if not server.num_sent:
                server.num_sent = len(server.chunks)
                server.empty(server.tag(0, flags) if flags & PULL else server.word(flags))
            return
        if left_out and not server.num_sent:
            server.empty(server.word(flags))
        while server.num_sent < len(server.outlets) and server.num_due < WINDOW:
            index = server.num_sent
            if server.chunks[index] in left_out:
                server.empty(server.tag(index, REFUSED | BARE))
            else:
                server.outlets[index](server.tag(index, flags | WORD))
                self.sent_bytes += server.gradients[index].nbytes
            server.num_sent += 1

    def _count_sent(self, num_bytes: int) -> None:
        self.sent_bytes += num_bytes

    def await_chunks(self, chunks: Collection[Chunk]) -> int:
        return self._courier.await_chunks(chunks)

    def drain(self) -> None:
        self._courier.drain()

    def close(self) -> None:
        self._courier.close()

    def _send_rows(self, touched: Touched) -> None:
        """Send each server its rows, then their gradients: they come before the chunks do."""
        start = 0
        for server, stop in zip(self._servers, self._stops(touched.rows), strict=True):
            for values in (touched.rows[start:stop], touched.gradients[start:stop]):
                self._channel.send(server.name, values, pack(0, 0, ROWS | PUSHED))
                self.sent_bytes += values.nbytes
            start = stop

    def _stops(self, rows: Tensor) -> list[int]:
        assert self._replica.table is not None
        return stops_of(rows, self._replica.table.num_rows, len(self._servers))

    def pull_rows(self, rows: Tensor) -> Tensor:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            values = self._gather_rows()
            if ahead is rows or self._is_loaded(ahead, rows):
                self._count_from_rows()
                return values
            # Somebody looks at other rows in between, as an evaluation does.
        self._ask_rows(rows)
        return self._gather_rows()

    def fetch_ahead(self, rows: Tensor) -> None:
        self._ahead = rows
        self._ask_rows(rows)

    def _count_from_rows(self) -> None:
        """Rows that were fetched ahead are older than the rest: staleness is theirs."""
        for server in self._servers:
            server.base_version = server.rows_version

    def _ask_rows(self, rows: Tensor) -> None:
        start = 0
        for server, stop in zip(self._servers, self._stops(rows), strict=True):
            self._channel.send(server.name, rows[start:stop], pack(0, 0, ROWS))
            self.sent_bytes += rows[start:stop].nbytes
            start = stop

    def _gather_rows(self) -> Tensor:
        self._await_rows()
        pulled, self._pulled = self._pulled, {}
        return torch.cat([pulled[server.name] for server in self._servers])

    def _await_rows(self) -> None:
        while len(self._pulled) < len(self._servers):
            self._take(self._channel.receive())

    def _is_loaded(self, ahead: Tensor, rows: Tensor) -> bool:
        """Whether rows fetched ahead are of a state, and these are the ones: in other memory."""
        is_loaded, self._ahead_is_loaded = self._ahead_is_loaded, False
        return is_loaded and torch.equal(ahead, rows)

    def state(self) -> State:
        """Give also the rows that were asked for ahead, once they are here."""
        ahead: dict[str, Value] = {}
        if self._ahead is not None:
            self._await_rows()
            ahead = {"rows": self._ahead, **self._pulled}
        return {
            **attributes(self, "sent_bytes", "received_bytes"),
            **{each.name: each.state() for each in self._servers},
            "ahead": ahead,
        }

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "sent_bytes", "received_bytes")
            for each in self._servers:
                fields.part(each.name, each)
            ahead = fields.table("ahead")
        if ahead:
            self._load_ahead(ahead)

    def _load_ahead(self, ahead: State) -> None:
        table, dtype = self._replica.table, self._replica.parameters.dtype
        if table is None:
            raise StateError("ahead", f"{len(ahead)} fields", "this model has no table of rows")
        with StateReader(ahead) as fields:
            self._ahead = fields.vector("rows", torch.int64).clone()
            stops = [0, *self._stops(self._ahead)]
            for server, (start, stop) in zip(self._servers, pairwise(stops), strict=True):
                values = torch.empty(stop - start, table.width, dtype=dtype)
                fields.fill(server.name, values)
                self._pulled[server.name] = values
        self._ahead_is_loaded = True

    def _take(self, message: Message) -> Correspondent:
        server = self._by_name[message.sender]
        tag = unpack(message.tag)
        self.received_bytes += message.memory.nbytes
        if tag.flags & ROWS:
            self._pulled[message.sender] = message.values
            server.rows_version = tag.version
        else:
            server.take(message, tag)
        return server

    def _answer(self) -> Answer:
        flags, grown = self._servers[0].flags & ~WAIT, 0
        for each in self._servers:
            flags |= each.flags & WAIT
            grown = max(grown, each.version - each.base_version)
            each.base_version = each.version
        return Answer(self._servers[0].version, flags, grown - 1)

    def catch_up(self) -> None:
        self.drain()
        for server in self._servers:
            server.empty(server.tag(0, STAND))
        asked = {server.name for server in self._servers}
        while asked:
            message = self._channel.receive()
            flags = unpack(message.tag).flags
            if flags & KEPT and not flags & ROWS:
                self._by_name[message.sender].flags = flags & WAIT
                asked.remove(message.sender)
            else:
                self._take(message)

    def await_release(self) -> Answer:
        self.drain()
        while any(each.flags & WAIT for each in self._servers):
            self._take(self._channel.receive())
        return self._answer()
