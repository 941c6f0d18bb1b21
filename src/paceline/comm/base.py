"""The seam between strategies and transports: tensors sent from seat to seat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from paceline.comm.roster import Roster
    from paceline.errors import PeerLost


SMALL_BYTES: Final = 1 << 16
"""Up to this size a copy costs less than what is done to avoid it."""


class Finished(Exception):
    """Raised in a server that waits for a message when the run is over."""


class Regrouped(Exception):
    """Raised where an all-reduce waits, when its members are no longer those it was formed of."""


@final
@dataclass(slots=True)
class Message:
    """A tensor that came from another seat, and the number its sender gave it."""

    sender: str
    tag: int
    dtype: str
    shape: tuple[int, ...]
    memory: memoryview
    """The values as bytes: theirs who received them, to read and to change."""
    frame: object = None
    """What the transport keeps them in, if it can send that on as it is."""
    _values: Tensor | None = field(default=None, init=False)

    @property
    def values(self) -> Tensor:
        """The same memory as a tensor; a copy, if it does not begin where its dtype may."""
        if self._values is None:
            self._values = self._seen_as_tensor()
        return self._values

    def _seen_as_tensor(self) -> Tensor:
        empty, from_memory, dtype = _makers(self.dtype)
        if not self.memory.nbytes:
            return empty(self.shape, dtype=dtype)
        values = from_memory(self.memory, dtype=dtype)
        if values.data_ptr() % values.element_size():
            values, self.frame = values.clone(), None
        return values if len(self.shape) == 1 else values.view(self.shape)


@cache
def _makers(dtype: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor], torch.dtype]:
    """What tensors are made with; the driver, which makes none, has no torch."""
    import torch

    return torch.empty, torch.frombuffer, getattr(torch, dtype)


@final
@dataclass(frozen=True, slots=True)
class Parcel:
    """A tensor that is ready to be sent, as often as is wanted and to any number of seats."""

    values: Tensor
    frames: tuple[object, ...] = ()
    """What a transport keeps them in, if it sends them from there."""


class Channel(ABC):
    """Tensors to and from the other seats of a run, each known by its name.

    Used by one thread. Messages of one sender arrive in the order they were sent, each once.
    A tensor handed to `send` may be overwritten the moment the call returns. A wait ends with
    `paceline.errors.Aborted`, which names the cause, when another seat fails: never a hang.
    """

    sent_bytes: int = 0
    """Bytes of values sent so far, without framing."""
    received_bytes: int = 0
    dropped: int = 0
    """Frames that were not ours, or damaged, or not what was asked for, and were left aside."""

    def __init__(self) -> None:
        self.sent_to: Counter[str] = Counter()
        """Bytes of values sent so far, by seat."""
        self.notice: Callable[[Roster], None] = ignore
        """Told of newer rosters while somebody waits; what it raises ends the wait."""
        self.closes_too = ExitStack()
        """What ends when this is closed."""

    @property
    def rejected(self) -> int:
        """How often a peer was turned away before it could send anything."""
        return 0

    @abstractmethod
    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        """Send a tensor to a seat, `worker1` or `server0`; waits while that one is far behind."""

    def outlet(self, to: str, values: Tensor) -> Callable[[int], None]:
        """Give a function that sends, with the tag it is given, what `values` holds by then.

        For memory that is sent over and over: whatever can be prepared is prepared once.
        """
        return partial(self.send, to, values)

    def packed(self, values: Tensor) -> Parcel:
        """Copy a tensor once, for all seats that it is then posted to."""
        return Parcel(values.detach().clone())

    def lent(self, values: Tensor) -> Parcel:
        """Have a tensor sent from the memory that it is in, each time with what that holds.

        Where it is changed before who receives it is known to have it, that one must not use it.
        """
        return Parcel(values)

    def post(self, to: str, parcel: Parcel, tag: int = 0) -> None:
        """Send a parcel; waits while its receiver is far behind."""
        self.send(to, parcel.values, tag)

    def pass_on(self, to: str, message: Message) -> None:
        """Send a seat the values of a message that came, as they are now.

        Unlike those of `send` they must not change any more: where it can, a transport sends the
        memory that they came in.
        """
        self.send(to, message.values, message.tag)

    @abstractmethod
    def receive(self) -> Message:
        """Wait for the next message. Raises `Finished` in a server when the run is over."""

    def glance(self) -> Message | None:
        """Give a message that is there already. Looks, as a wait does, whether it must end."""
        raise NotImplementedError(f"{type(self).__name__} only waits")

    def plain_host(self, name: str) -> str | None:
        """Give the host at which a seat may be called beside the channel, by plain TCP.

        None where messages must not, or need not, travel that way.
        """
        del name
        return None

    def offer(self, to: str, parcel: Parcel, tag: int = 0) -> bool:
        """Send a parcel unless more than a few wait for that seat; returns whether it was sent.

        So a sender can still choose what goes first.
        """
        self.post(to, parcel, tag)
        return True

    def listen(self, blocked: Collection[str] = ()) -> Message | None:
        """Wait for a message, for room to one of the seats that had none, or for `wake`."""
        del blocked
        return self.receive()

    def wake(self) -> None:
        """Have `listen`, now or when it is called next, return; any thread may call this."""
        raise NotImplementedError(f"{type(self).__name__} cannot be woken")

    def follow(self, roster: Roster) -> None:
        """Reach seats where a roster says they are, if it is newer than what is known.

        While somebody waits, a channel hears of rosters by itself. Who is about to send to the
        seats of one has it followed first: what is sent to where a seat was before is lost.
        """
        del roster

    def incarnation_of(self, sender: str) -> int:
        """Say of which incarnation of a seat messages are taken, at least.

        A message of a seat that was started again may come before the roster that has it.
        """
        del sender
        return 0

    def lost(self) -> PeerLost | None:
        """Say which correspondent was there and is no more, for whoever waits in another way."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of the transport's resources; what was sent still arrives."""


def ignore(roster: Roster) -> None:
    """Let members come and go."""
    del roster


def bytes_of(values: Tensor) -> memoryview:
    """See a tensor that has no gaps as bytes, without copying it."""
    import torch

    return values.detach().view(-1).view(torch.uint8).numpy().data
