"""All-reduce through memory that the ranks of one host share.

A small tensor takes the shortest path: every rank lays its own out where all can see it, waits
once for the others, and adds all of them up. Of a large one every rank adds up one slice, and
writes the sum where all find it; a tensor that lives in the shared memory is so reduced in place,
any other in pieces that are copied in and out.

Every formation has room of its own in the ranks' arenas: a page of 64-bit words, the first of which
counts the phases its rank has finished; two slots for tensors that lie elsewhere; then the tensor
that was allocated there, if any.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

import numpy as np

from paceline.comm.allreduce.base import AllReduce, numpys_dtypes, slice_of
from paceline.comm.host_memory import Host, tensor_in
from paceline.comm.patience import Patience
from paceline.system.linux import Futex

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_HEADER_BYTES: Final = mmap.PAGESIZE
SLOT_BYTES: Final = 1 << 22
# Up to this size it is cheaper that every rank adds up everything than to wait twice.
_SMALL_BYTES: Final = 1 << 17
# A slice is added up in blocks that stay in the processor's cache between reading and writing.
_BLOCK_BYTES: Final = 1 << 17
# How long a rank sleeps before it looks whether the run goes on.
_PATIENCE_MS: Final = 20


@final
class SharedAllReduce(AllReduce):
    """Sums over the ranks of one host. Never spins: with more ranks than cores nobody starves."""

    def __init__(
        self, rank: int, names: Sequence[str], host: Host, room_bytes: int = 0, epoch: int = 0
    ) -> None:
        """`room_bytes` is how much `allocate` will be asked for."""
        super().__init__(rank, len(names))
        self._names = names
        self._host = host
        self._epoch = epoch
        self._own_memory = host.add_room(epoch, _HEADER_BYTES + 2 * SLOT_BYTES + room_bytes)
        self._memories: list[mmap.mmap] = []
        self._room: list[Tensor] = []
        self._parity = 0
        self._small: _Small | None = None
        self._small_dtypes = numpys_dtypes()

    def _open(self) -> None:
        """Map the others' rooms: each adds its own when it forms this."""
        self._memories = [
            self._own_memory if rank == self.rank else self._host.open_room(name, self._epoch)
            for rank, name in enumerate(self._names)
        ]
        self._phases = _Phases(self.rank, self._memories, self._host)
        self._slots = lru_cache(maxsize=64)(self._find_slots)

    def allocate(self, num_values: int, dtype: torch.dtype) -> Tensor:
        if not self._memories:
            self._open()
        offset = _HEADER_BYTES + 2 * SLOT_BYTES
        self._room = [tensor_in(each, dtype, num_values, offset) for each in self._memories]
        return self._room[self.rank]

    def _find_slots(self, parity: int, num_values: int, dtype: torch.dtype) -> list[Tensor]:
        """One of the two slots of every rank, as tensors of a kind."""
        offset = _HEADER_BYTES + parity * SLOT_BYTES
        return [tensor_in(each, dtype, num_values, offset) for each in self._memories]

    def _reduce(self, values: Tensor, divisor: int) -> None:
        if not self._memories:
            self._open()
        share = values.nbytes * (self.num_ranks - 1) // self.num_ranks
        self.sent_bytes += 2 * share
        self.received_bytes += 2 * share
        if values.nbytes <= _SMALL_BYTES and values.dtype in self._small_dtypes:
            self._reduce_small(values, divisor)
        elif self._room and _lies_within(values, self._room[self.rank]):
            self._reduce_in_place(values, divisor)
        else:
            length = SLOT_BYTES // values.element_size()
            for start in range(0, values.numel(), length):
                self._reduce_piece(values[start : start + length], divisor)

    def _next_slots(self, values: Tensor) -> list[Tensor]:
        """Take the two slots in turn: a rank that is behind may still read from the other."""
        self._parity ^= 1
        return self._slots(self._parity, values.numel(), values.dtype)

    def _reduce_small(self, values: Tensor, divisor: int) -> None:
        small = self._small
        if small is None or small.values is not values:
            both = [self._slots(each, values.numel(), values.dtype) for each in (0, 1)]
            small = self._small = _Small(values, both, self.rank)
        self._parity ^= 1
        small.lay_out(self._parity)
        self._phases.meet(self.meanwhile)
        small.add_up(self._parity, divisor)

    def _reduce_piece(self, piece: Tensor, divisor: int) -> None:
        slots = self._next_slots(piece)
        slots[self.rank].copy_(piece)
        self._phases.meet()
        mine = slice_of(piece.numel(), self.num_ranks, self.rank)
        _add_up(slots[self.rank][mine], [slots[each][mine] for each in self._others], divisor)
        self._phases.meet()
        for rank, slot in enumerate(slots):
            its = slice_of(piece.numel(), self.num_ranks, rank)
            piece[its].copy_(slot[its])

    def _reduce_in_place(self, values: Tensor, divisor: int) -> None:
        first = values.storage_offset() - self._room[self.rank].storage_offset()
        mine = slice_of(values.numel(), self.num_ranks, self.rank)
        length = _BLOCK_BYTES // values.element_size()
        self._phases.meet()
        for start in range(first + mine.start, first + mine.stop, length):
            block = slice(start, min(start + length, first + mine.stop))
            total, others = (
                self._room[self.rank][block],
                [self._room[e][block] for e in self._others],
            )
            _add_up(total, others, divisor)
            for other in others:
                other.copy_(total)
        self._phases.meet()

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self.num_ranks) if rank != self.rank]


@final
class _Small:
    """The way of one small tensor, which is often the same step after step.

    It goes through numpy: what a call into torch takes before it begins is more than adding up
    so few values.
    """

    def __init__(self, values: Tensor, both: list[list[Tensor]], rank: int) -> None:
        """`both` are the two slots of every rank."""
        self.values = values
        self._own = values.detach().numpy()
        self._slots = [[slot.numpy() for slot in slots] for slots in both]
        self._rank = rank

    def lay_out(self, parity: int) -> None:
        np.copyto(self._slots[parity][self._rank], self._own)

    def add_up(self, parity: int, divisor: int) -> None:
        own, (first, second, *others) = self._own, self._slots[parity]
        with np.errstate(all="ignore"):  # what is not finite is the caller's to judge
            np.add(first, second, out=own)
            for other in others:
                np.add(own, other, out=own)
            if divisor > 1:
                np.divide(own, divisor, out=own)


def _add_up(total: Tensor, others: list[Tensor], divisor: int) -> None:
    for other in others:
        total.add_(other)
    if divisor > 1:
        total.div_(divisor)


def _lies_within(values: Tensor, room: Tensor) -> bool:
    first, start = values.data_ptr(), room.data_ptr()
    return start <= first and first + values.nbytes <= start + room.nbytes


@final
class _Phases:
    """Where the ranks wait for each other: each counts its phases in a word that all can see."""

    def __init__(self, rank: int, memories: list[mmap.mmap], host: Host) -> None:
        self._rank = rank
        self._host = host
        self._words = [memoryview(memory)[:8].cast("q") for memory in memories]
        self._sleepers = [Futex(_address_of(memory), _PATIENCE_MS) for memory in memories]
        self._others = [each for each in range(len(memories)) if each != rank]
        self._patience = Patience()
        self._number = 0

    def meet(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Say that this rank has finished a phase, and wait until all have.

        If there is anybody to wait for, `meanwhile` is called first.
        """
        self._number = number = self._number + 1
        words = self._words
        words[self._rank][0] = number
        self._sleepers[self._rank].wake()
        for other in self._others:
            if words[other][0] < number:
                if meanwhile is not None:
                    meanwhile()
                    meanwhile = None
                self._wait_for(other, number)

    def _wait_for(self, other: int, number: int) -> None:
        word = self._words[other]
        if self._patience.await_word(word, 0, number):
            return
        while (seen := word[0]) < number:
            if not self._sleepers[other].wait(seen):
                self._host.check()


def _address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
