"""What a worker knows of one server that it exchanges messages with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.base import SMALL_BYTES, Message, Parcel, bytes_of
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.link import (
    BARE,
    DECIDED,
    GREETING,
    LAST,
    LEAVE,
    RELEASE,
    VOID,
    WAIT,
    WORD,
)
from paceline.strategies.parameter_server.tags import NUM_PUSHES, Tag, pack
from paceline.training.state import State, Stateful, StateReader, attributes

if TYPE_CHECKING:
    from torch import Tensor

_KNOWN: Final = ("version", "base_version", "rows_version", "flags", "push")


@final
class Correspondent(Stateful):
    """One server, and how far the push to it and its reply are."""

    def __init__(self, chunks: list[Chunk], place: Place) -> None:
        self.name = place.server_names[chunks[0].server]
        self.chunks = chunks
        replica, channel = place.replica, place.channel
        self.gradients = [replica.gradients[each.start : each.stop] for each in chunks]
        self._channel = channel
        self.outlets = [self._outlet(each) for each in self.gradients]
        nothing = replica.gradients[:0]
        self.nothing = channel.lent(nothing)
        self.empty = channel.outlet(self.name, nothing)
        self.parameters = [bytes_of(replica.parameters[each.start : each.stop]) for each in chunks]
        self.unanswered: set[int] = set()
        """Chunks whose new parameters are not here yet."""
        self.came_ns = [0] * len(chunks)
        """When those of each chunk came."""
        self.is_decided = True
        self.num_sent = 0
        self.num_row_messages = 0
        """How many messages with rows of the present push were sent."""
        self.num_decided = 0
        """Of how many pushes it is known what became of them."""
        self.is_push = False
        """Whether the last that was begun is a push, and no question for parameters."""
        self._last = 0
        self.push = 0
        self.version = 0
        self.base_version = 0
        self.rows_version = 0
        self.flags = 0

    # Gradients are sent from where they lie. They change when the server has answered them, or has
    # said that it uses nothing of their push: of what is still on its way then, it uses nothing.

    def _outlet(self, values: Tensor) -> Callable[[int], None]:
        if values.nbytes <= SMALL_BYTES:
            return self._channel.outlet(self.name, values)
        return partial(self._channel.post, self.name, self._channel.lent(values))

    @cached_property
    def parcels(self) -> list[Parcel]:
        """The gradients of each chunk, to be offered."""
        return [self._channel.lent(each) for each in self.gradients]

    def begin(self, *, is_push: bool = True) -> None:
        """A push begins, or parameters are asked for.

        Only pushes are numbered: the numbers are few, and each must be unlike that of the push
        before, however often parameters are asked for in between.
        """
        self.push = (self.push + is_push) % NUM_PUSHES
        self.is_push = is_push
        self._last = 0
        self._begin()

    def _begin(self) -> None:
        self.unanswered = set(range(len(self.chunks)))
        self.is_decided = False
        self.num_sent = self.num_row_messages = 0

    def begin_again(self) -> None:
        """The server was started again: what it has not answered is sent once more.

        Where only parameters are missing, these are asked for: what was decided stays so.
        """
        if self.is_done:
            return
        if self.is_decided:
            self.is_push, self._last = False, self.flags & LAST
        self._begin()

    def greeting(self, *, leaves: bool) -> tuple[Tensor, int]:
        """Give the message that tells a server which was started again how far this worker is."""
        is_pending = self.is_push and not self.is_decided
        # It may have to leave, and not know it yet: parameters are still missing.
        leaves |= not is_pending and bool((self.flags | self._last) & LAST)
        flags = GREETING | (LEAVE if leaves else self.flags & WAIT)
        values = torch.tensor([self.num_decided, int(is_pending)])
        return values, pack(self.version, 0, flags, self.push)

    @property
    def is_done(self) -> bool:
        """Whether nothing of the reply is due any more."""
        return self.is_decided and not self.unanswered

    @property
    def num_due(self) -> int:
        """How many chunks were sent and not answered."""
        return self.num_sent - len(self.chunks) + len(self.unanswered)

    def tag(self, index: int, flags: int) -> int:
        """Make the tag of a message of this push."""
        return pack(self.base_version, index, flags, self.push)

    def word(self, flags: int) -> int:
        """Make the tag of a message that is only the word."""
        return self.tag(0, flags | WORD | BARE)

    def take(self, message: Message, tag: Tag) -> None:
        """Take parameters, a decision, or both."""
        index, flags = tag.chunk, tag.flags
        if message.memory.nbytes == self.parameters[index].nbytes:
            self.parameters[index][:] = message.memory
            self.came_ns[index] = perf_counter_ns()
            if not flags & RELEASE:
                self.unanswered.discard(index)
        if flags & DECIDED:
            self.num_decided += self.is_push and not self.is_decided
            self.version, self.flags = tag.version, flags & ~(DECIDED | VOID) | self._last
            self.is_decided = True
            if flags & VOID:
                self.unanswered.clear()

    def state(self) -> State:
        return attributes(self, *_KNOWN)

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_KNOWN)
