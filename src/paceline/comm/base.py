"""The seam between strategies and transports: tensors sent from seat to seat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from torch import Tensor


class Finished(Exception):
    """Raised in a server that waits for a message when the run is over."""


@final
@dataclass(frozen=True)
class Message:
    """A tensor that came from another seat, and the number its sender gave it."""

    sender: str
    tag: int
    values: Tensor


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
    """Frames that were not ours, or damaged, and were left aside."""

    @abstractmethod
    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        """Send a tensor to a seat, `worker1` or `server0`; waits while that one is far behind."""

    @abstractmethod
    def receive(self) -> Message:
        """Wait for the next message. Raises `Finished` in a server when the run is over."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the transport's resources; what was sent still arrives."""
