"""A server's end of the messages between it and its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING, ClassVar, final

import torch

from paceline.comm.base import SMALL_BYTES, Message, Parcel
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk, server_part
from paceline.strategies.parameter_server.link import (
    BARE,
    GREETING,
    PULL,
    ROWS,
    WORD,
    Arrival,
    ServerLink,
)
from paceline.strategies.parameter_server.tags import PUSHED, pack, unpack
from paceline.training.row_update import new_table

if TYPE_CHECKING:
    from torch import Tensor


@final
class MessageServerLink(ServerLink):
    """Takes gradients and sends parameters through the place's channel."""

    decides_first: ClassVar[bool] = True

    def __init__(self, place: Place, chunks: list[Chunk]) -> None:
        self._channel = place.channel
        self._chunks = chunks
        self.changes = [0] * len(chunks)
        self._names = place.worker_names
        self._numbers = {name: number for number, name in self._names.items()}
        self._dtype = place.replica.parameters.dtype
        self._dtype_name = str(self._dtype).removeprefix("torch.")
        self._nothing = torch.empty(0, dtype=self._dtype)
        self._outlets: dict[tuple[int, int], Callable[[int], None]] = {}
        # The parameters that were answered last, of which chunk, and how often that had changed.
        self._packed: tuple[int, int, Parcel] | None = None
        self._table = place.replica.table
        self._part = slice(0, 0)
        if self._table is not None:
            self._part = server_part(self._table.num_rows, place.num_servers, place.rank)
        self._touched: dict[int, list[Tensor]] = {}

    def arrivals(self) -> Iterator[Arrival]:
        while True:
            message = self._channel.receive()
            came_ns = monotonic_ns()
            flags = unpack(message.tag).flags
            if flags & ROWS and flags & PUSHED:
                is_ours = self._keep_rows(message)
            else:
                read = self._read_rows if flags & ROWS else self._read
                arrival = (self._read_greeting if flags & GREETING else read)(message)
                is_ours = arrival is not None
                if arrival is not None:
                    yield arrival
            self._channel.dropped += not is_ours
            self.busy_ns += monotonic_ns() - came_ns

    def _keep_rows(self, message: Message) -> bool:
        """Keep a push's rows, then their gradients, until its word comes."""
        worker = self._numbers.get(message.sender)
        if worker is None or self._table is None:
            return False
        kept = self._touched.setdefault(worker, [])
        if not kept:
            if not self._are_ours(message.values):
                return False
            kept.append(message.values - self._part.start)
            return True
        expected = (len(kept[0]), self._table.width)
        if message.values.shape != expected or message.values.dtype != self._dtype:
            kept.clear()
            return False
        kept.append(message.values)
        return True

    def forget(self, worker: int) -> None:
        self._touched.pop(worker, None)

    def _are_ours(self, rows: Tensor) -> bool:
        """Whether these are numbers of rows of our part, in ascending order."""
        if rows.dtype != torch.int64 or rows.dim() != 1:
            return False
        if not rows.numel():
            return True
        ascending = bool((rows[1:] > rows[:-1]).all())
        return ascending and bool(rows[0] >= self._part.start) and bool(rows[-1] < self._part.stop)

    def _read_rows(self, message: Message) -> Arrival | None:
        """Read what a worker wants of the table."""
        worker = self._numbers.get(message.sender)
        if worker is None or self._table is None or not self._are_ours(message.values):
            return None
        rows = message.values - self._part.start
        return Arrival(worker, self._chunks[0], ROWS, 0, message.values, rows=rows)

    def _read_greeting(self, message: Message) -> Arrival | None:
        """Read how far a worker is."""
        version, push, _, flags = unpack(message.tag)
        worker = self._numbers.get(message.sender)
        if worker is None or message.dtype != "int64" or message.shape != (2,):
            return None
        values = message.values
        return Arrival(worker, self._chunks[0], flags, version, values, rows=values, push=push)

    def place_parameters(self, initial: Tensor) -> Tensor:
        return initial

    def make_table(self, num_rows: int, num_values: int, dtype: torch.dtype) -> Tensor:
        return new_table(num_rows, num_values, dtype)

    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        self._channel.send(self._names[worker], values, pack(version, 0, ROWS))

    def _read(self, message: Message) -> Arrival | None:
        """Take only what fits: another dtype, length or chunk is not for us."""
        version, push, index, flags = unpack(message.tag)
        worker = self._numbers.get(message.sender)
        if worker is None or index >= len(self._chunks) or message.dtype != self._dtype_name:
            return None
        chunk = self._chunks[index]
        expected = 0 if flags & (PULL | BARE) else chunk.num_values
        if message.shape != (expected,):
            return None
        if flags & PULL or not flags & WORD or self._table is None:
            return Arrival(worker, chunk, flags, version, message.values, push=push)
        rows = self._touched.pop(worker, [])
        arrival = Arrival(worker, chunk, flags, version, message.values, push=push)
        return arrival._replace(rows=rows[0], row_gradients=rows[1]) if len(rows) == 2 else arrival

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        tag = pack(version, chunk.index, flags)
        if parameters.nbytes <= SMALL_BYTES:
            self._outlet(worker, chunk.index, parameters)(tag)
        else:
            self._channel.post(self._names[worker], self._parcel(chunk, parameters), tag)

    def _parcel(self, chunk: Chunk, parameters: Tensor) -> Parcel:
        """Copy a chunk's parameters once for all workers that are answered with the same."""
        index, change = chunk.index, self.changes[chunk.index]
        if self._packed is None or self._packed[:2] != (index, change):
            self._packed = index, change, self._channel.packed(parameters)
        return self._packed[2]

    def restart(self, version: int) -> None:
        del version
        self._packed = None

    def decide(self, worker: int, version: int, flags: int) -> None:
        self._outlet(worker, -1, self._nothing)(pack(version, 0, flags))

    def _outlet(self, worker: int, index: int, values: Tensor) -> Callable[[int], None]:
        outlet = self._outlets.get((worker, index))
        if outlet is None:
            outlet = self._channel.outlet(self._names[worker], values)
            self._outlets[worker, index] = outlet
        return outlet
