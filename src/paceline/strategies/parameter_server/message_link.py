"""The same by messages, where worker and server share no memory.

Without overlap a worker sends the next chunk only while fewer than `WINDOW` of a server's answers
are due, so no server holds more than its own part and that many chunks per worker. With it a
`Courier` sends chunks while the worker computes. A server may then hold a whole push of every
worker: of `ps-sync` where one of them is far behind, of the others until the word is in.

A worker that is released while it rests at an evaluation has its new parameters kept until it
reads them.

A server that is lost may come back (`returns.py`): whatever this worker was about is then done
again from where that server stands, and a push of which it is not known what became is sent again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.base import Message
from paceline.errors import PeerLost, StateError
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
from paceline.strategies.parameter_server.returns import Returned, Returns
from paceline.strategies.parameter_server.tags import PUSHED, pack, unpack
from paceline.training.state import State, StateReader, Value, attributes

if TYPE_CHECKING:
    from torch import Tensor


WINDOW: Final = 8


@final
class MessageWorkerLink(WorkerLink):
    """Sends gradients and takes parameters through the place's channel."""

    def __init__(self, place: Place, chunks: list[list[Chunk]], *, word_last: bool) -> None:
        self._replica = place.replica
        self._channel = place.channel
        self._servers = [Correspondent(each, place) for each in chunks]
        self._by_name = {each.name: each for each in self._servers}
        self._returns = Returns(place)
        if self._returns.are_possible:
            self._channel.notice = self._returns.notice
        self._newest_roster = place.newest_roster
        self._courier = Courier(
            self._channel,
            self._servers,
            self._take,
            self._count_sent,
            holds=place.learns,
            word_last=word_last,
        )
        self._pulled: dict[str, Tensor] = {}
        self._asked: dict[str, Tensor] = {}
        """Rows that were asked for and are not here, by server."""
        self._asked_to_stand: set[str] = set()
        # One may have been started again since the roster that this place was made of.
        self.look_around()
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
        self.is_behind = False
        for each in self._servers:
            each.begin(is_push=not flags & PULL)
        rows = self._rows_by_server(None if flags & REFUSED else touched)

        def send(server: Correspondent) -> None:
            self._send_rows(server, rows)
            self._send_what_may_go(server, flags, left_out)

        self._send_to_all(send)
        while not all(server.is_done for server in self._servers):
            server = self._next()
            if server is None:  # one was started again, or is away
                self._send_to_all(send)
            elif not server.is_done:
                self._send_to(server, send)
        return self._answer()

    def _send_to_all(self, send: Callable[[Correspondent], None]) -> None:
        """Send each server what it has not been sent, if its answer is still due."""
        for server in self._servers:
            if not server.is_done:
                self._send_to(server, send)

    def _send_to(self, server: Correspondent, send: Callable[[Correspondent], None]) -> None:
        """Send a server something, unless it is away: it is sent that when it is back."""
        try:
            send(server)
        except PeerLost as lost:
            self._returns.bear(lost)
        except Returned:
            self._greet()
            self._send_to_all(send)

    def _next(self) -> Correspondent | None:
        """Take the next message; None where a server is away, or was started again meanwhile."""
        message = self._receive()
        return None if message is None else self._take(message)

    def _receive(self) -> Message | None:
        try:
            return self._channel.receive()
        except PeerLost as lost:
            self._returns.bear(lost)
        except Returned:
            self._greet()
        return None

    def _greet(self) -> None:
        """Tell servers that were started again how far this worker is."""
        back = self._returns.back
        while back:
            server = self._by_name[back[0]]
            greeting, tag = server.greeting(leaves=self.leaves)
            self.is_behind |= server.is_done
            server.begin_again()
            try:
                self._channel.send(server.name, greeting, tag)
            except Returned:  # another one is back
                continue
            except PeerLost as lost:  # gone again: it is greeted when it is back
                self._returns.bear(lost)
            back.remove(server.name)
            self._asked_to_stand.discard(server.name)
            if (rows := self._asked.pop(server.name, None)) is not None:
                self._ask_for_rows(server.name, rows)

    def look_around(self) -> None:
        roster = self._newest_roster()
        if roster is None or not self._returns.are_possible:
            return
        self._channel.follow(roster)
        with contextlib.suppress(Returned):
            self._returns.notice(roster)
        self._greet()

    def _send_what_may_go(
        self, server: Correspondent, flags: int, left_out: Collection[Chunk]
    ) -> None:
        if flags & REFUSED or not server.is_push:
            if not server.num_sent:
                asks = not server.is_push
                server.empty(server.tag(0, flags | PULL) if asks else server.word(flags))
                server.num_sent = len(server.chunks)
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

    def _rows_by_server(self, touched: Touched | None) -> dict[str, tuple[Tensor, Tensor]]:
        """Give each server's rows, and their gradients."""
        if touched is None:
            return {}
        stops = [0, *self._stops(touched.rows)]
        return {
            server.name: (touched.rows[start:stop], touched.gradients[start:stop])
            for server, (start, stop) in zip(self._servers, pairwise(stops), strict=True)
        }

    def _send_rows(self, server: Correspondent, rows: dict[str, tuple[Tensor, Tensor]]) -> None:
        """Send a server its rows, then their gradients: they come before the chunks do."""
        if not rows or not server.is_push:
            return
        for values in rows[server.name][server.num_row_messages :]:
            self._channel.send(server.name, values, pack(0, 0, ROWS | PUSHED))
            server.num_row_messages += 1
            self.sent_bytes += values.nbytes

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
        """Ask for rows; who does not answer, since it was started again, is asked again."""
        stops = [0, *self._stops(rows)]
        for server, (start, stop) in zip(self._servers, pairwise(stops), strict=True):
            self._ask_for_rows(server.name, rows[start:stop])

    def _ask_for_rows(self, name: str, rows: Tensor) -> None:
        self._try(lambda: self._channel.send(name, rows, pack(0, 0, ROWS)))
        self._asked[name] = rows
        self.sent_bytes += rows.nbytes

    def _try(self, send: Callable[[], None]) -> None:
        """Send something, unless who should have it is away."""
        while True:
            try:
                send()
            except PeerLost as lost:
                self._returns.bear(lost)
            except Returned:
                self._greet()
                continue
            return

    def _gather_rows(self) -> Tensor:
        self._await_rows()
        pulled, self._pulled = self._pulled, {}
        return torch.cat([pulled[server.name] for server in self._servers])

    def _await_rows(self) -> None:
        while len(self._pulled) < len(self._servers):
            self._next()

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
            self._asked.pop(message.sender, None)
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
        due, self._asked_to_stand = {*self._by_name}, set()
        while due:
            for name in due - self._asked_to_stand:
                server = self._by_name[name]
                self._asked_to_stand.add(name)
                self._try(partial(server.empty, server.tag(0, STAND)))
            message = self._receive()
            if message is None:
                continue
            flags = unpack(message.tag).flags
            if flags & KEPT and not flags & ROWS:
                self._by_name[message.sender].flags = flags & WAIT
                due.discard(message.sender)
            else:
                self._take(message)

    def await_release(self) -> Answer:
        self.drain()
        while any(each.flags & WAIT for each in self._servers):
            self._next()
        return self._answer()
