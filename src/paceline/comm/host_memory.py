"""Memory and bells that the seats of one host share.

Each seat has an arena, a memfd that every seat of the host inherited, and a bell, an eventfd.
Neither has a name in any file system, so nothing is left when everything is killed. A seat sizes
its own arena once; others can map it from then on.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from paceline.comm.base import Finished, Regrouped, ignore
from paceline.comm.seat_line import SeatLine

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from paceline.comm.roster import Roster

# How often a seat looks whether another has sized its arena; only while a run starts.
_LOOK_S: Final = 0.001
# What the first page of an arena with rooms begins with: the newest one's epoch and one, its start,
# its size.
_EPOCH: Final = struct.Struct("=q")
_ROOM: Final = struct.Struct("=qq")


@final
@dataclass(frozen=True)
class Holdings:
    """The descriptors of one seat's arena and bell."""

    arena: int
    bell: int


def make_holdings(names: Iterable[str]) -> dict[str, Holdings]:
    """Make an arena and a bell for each seat; to be called before the seats are forked."""
    return {
        name: Holdings(os.memfd_create(f"paceline-{name}"), os.eventfd(0, os.EFD_CLOEXEC))
        for name in names
    }


def close_holdings(holdings: Mapping[str, Holdings] | None) -> None:
    """Let go of them in the process that made them."""
    for each in (holdings or {}).values():
        os.close(each.arena)
        os.close(each.bell)


@final
class Host:
    """A seat's view of what the seats of its host share. Used by one thread."""

    def __init__(self, name: str, holdings: Mapping[str, Holdings], line: SeatLine) -> None:
        self.name = name
        self._holdings = holdings
        self._line = line
        self._bell = holdings[name].bell
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._poll.register(line.fileno(), select.POLLIN)
        self.notice: Callable[[Roster], None] = ignore
        """Told of the newest roster while this seat waits; what it raises ends the wait."""

    def open_own(self, num_bytes: int) -> mmap.mmap:
        """Size this seat's arena and map it."""
        arena = self._holdings[self.name].arena
        os.ftruncate(arena, num_bytes)
        return mmap.mmap(arena, num_bytes)

    def open(self, name: str) -> mmap.mmap:
        """Map another seat's arena, as soon as that seat has sized it."""
        arena = self._holdings[name].arena
        while not (num_bytes := os.fstat(arena).st_size):
            self._line.poll()
            time.sleep(_LOOK_S)
        return mmap.mmap(arena, num_bytes)

    def add_room(self, epoch: int, num_bytes: int) -> mmap.mmap:
        """Extend this seat's arena by room that nobody used before, for one epoch, and map it.

        The arena's first page says where it is. What earlier epochs use stays where it is, so that
        who still reads there is not disturbed; it is given back when the seats have ended.
        """
        arena = self._holdings[self.name].arena
        start = max(_rounded(os.fstat(arena).st_size), mmap.PAGESIZE)
        os.ftruncate(arena, start + num_bytes)
        os.pwrite(arena, _ROOM.pack(start, num_bytes), _EPOCH.size)
        os.pwrite(arena, _EPOCH.pack(epoch + 1), 0)  # last: from now on others may map it
        return mmap.mmap(arena, num_bytes, offset=start)

    def open_room(self, name: str, epoch: int) -> mmap.mmap:
        """Map the room that another seat has for an epoch, as soon as it has.

        Raises `Regrouped` if that seat is in a later one already.
        """
        arena = self._holdings[name].arena
        while (found := _newest_epoch(arena)) < epoch:
            self.check()
            time.sleep(_LOOK_S)
        if found > epoch:
            raise Regrouped(f"{name} is in epoch {found}, this is {epoch}")
        start, num_bytes = _ROOM.unpack(os.pread(arena, _ROOM.size, _EPOCH.size))
        return mmap.mmap(arena, num_bytes, offset=start)

    def check(self) -> None:
        """Look whether the run goes on, for whoever waits in a way of its own; raises as `wait`."""
        self._line.poll()
        if self._line.finished:
            raise Finished
        if self._line.newest_roster is not None:
            self.notice(self._line.newest_roster)

    def ring(self, name: str) -> None:
        """Wake a seat that waits, or will wait; many rings before it wakes are one."""
        os.eventfd_write(self._holdings[name].bell, 1)

    def wait(self) -> None:
        """Wait until somebody rings.

        Raises `Aborted` when the run cannot go on, and `Finished` when it is over.
        """
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._bell:
                    os.eventfd_read(self._bell)
                    return
            self.check()


def _newest_epoch(arena: int) -> int:
    """The epoch of the newest room in an arena; -1 while there is none."""
    written = os.pread(arena, _EPOCH.size, 0)
    return _EPOCH.unpack(written)[0] - 1 if len(written) == _EPOCH.size else -1


def _rounded(num_bytes: int) -> int:
    return -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


def tensor_in(memory: mmap.mmap, dtype: torch.dtype, num_values: int, offset: int) -> Tensor:
    """See a stretch of shared memory as a tensor."""
    import torch

    if not num_values:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=num_values, offset=offset)
