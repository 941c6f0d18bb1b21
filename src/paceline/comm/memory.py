"""A channel between threads of one process: queues. The simplest thing that keeps the promises."""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, final

from paceline.comm.base import Channel, Finished, Message, bytes_of
from paceline.comm.seat_line import SeatLine

if TYPE_CHECKING:
    from torch import Tensor

# How often a waiting thread looks whether the run is over: threads share no descriptor to wait
# on, and inline runs are for debugging.
_LOOK_S: Final = 0.05

Boxes = Mapping[str, "queue.Queue[Message | None]"]


def boxes_for(names: list[str]) -> Boxes:
    """Make one letter box a seat."""
    return {name: queue.Queue() for name in names}


@final
class MemoryChannel(Channel):
    """A seat's view of the letter boxes of all seats."""

    def __init__(self, name: str, boxes: Boxes, line: SeatLine) -> None:
        super().__init__()
        self.name = name
        self._boxes = boxes
        self._line = line

    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        import torch

        self.sent_bytes += values.nbytes
        self.sent_to[to] += values.nbytes
        kept = values.detach().clone(memory_format=torch.contiguous_format)
        dtype = str(kept.dtype).removeprefix("torch.")
        self._boxes[to].put(Message(self.name, tag, dtype, tuple(kept.shape), bytes_of(kept)))

    def receive(self) -> Message:
        while (message := self.listen()) is None:
            pass
        return message

    def wake(self) -> None:
        self._boxes[self.name].put(None)

    def listen(self, blocked: Collection[str] = ()) -> Message | None:
        del blocked  # there is always room
        while True:
            try:
                message = self._boxes[self.name].get(timeout=_LOOK_S)
            except queue.Empty:
                self._line.poll()
                if self._line.finished:
                    raise Finished from None
                if self._line.newest_roster is not None:
                    self.notice(self._line.newest_roster)
                continue
            if message is not None:
                self.received_bytes += message.memory.nbytes
            return message

    def close(self) -> None:
        """Nothing is held."""
