"""A channel between processes, over ZeroMQ: one mailbox a seat, one connection a correspondent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, final

import zmq

from paceline.comm import wire
from paceline.comm.base import Channel, Finished, Message
from paceline.comm.line import SeatLine
from paceline.errors import WireError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_log = logging.getLogger(__name__)

# How many messages may wait for a slow receiver before the sender does.
_WAITING_MESSAGES: Final = 16
_LINGER_MS: Final = 1000


@final
class ZmqChannel(Channel):
    """A mailbox bound at this seat's address; others are connected to when first written to."""

    def __init__(self, name: str, addresses: Mapping[str, str], run: bytes, line: SeatLine) -> None:
        self.name = name
        self._addresses = addresses
        self._run = run
        self._line = line
        self._context = zmq.Context()
        self._inbox = self._socket(zmq.PULL)
        self._inbox.bind(addresses[name])
        self._outboxes: dict[str, zmq.Socket[bytes]] = {}
        self._sequence = 0
        self._last_seen: dict[str, int] = {}
        self._poller = zmq.Poller()
        self._poller.register(self._inbox, zmq.POLLIN)
        self._poller.register(line.fileno(), zmq.POLLIN)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        made = self._context.socket(kind)
        made.set_hwm(_WAITING_MESSAGES)
        made.setsockopt(zmq.LINGER, _LINGER_MS)
        return made

    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        values = values.detach().contiguous()
        header = wire.Header(
            sender=self.name,
            run=self._run,
            sequence=self._sequence,
            tag=tag,
            dtype=_dtype_name(values.dtype),
            shape=tuple(values.shape),
        )
        self._sequence += 1
        self.sent_bytes += values.nbytes
        # ZeroMQ copies: the caller may overwrite the tensor as soon as we return.
        parts = (wire.encode(header), _memory_of(values))
        outbox = self._outbox(to)
        while True:
            try:
                outbox.send_multipart(parts, zmq.DONTWAIT, copy=True)
                return
            except zmq.Again:
                self._wait_for_room(outbox)

    def _wait_for_room(self, outbox: zmq.Socket[bytes]) -> None:
        """Wait until a receiver has taken something, as long as the run goes on."""
        while not outbox.poll(timeout=100, flags=zmq.POLLOUT):
            self._line.poll()
            if self._line.finished:
                raise Finished

    def _outbox(self, to: str) -> zmq.Socket[bytes]:
        if to not in self._outboxes:
            outbox = self._socket(zmq.PUSH)
            outbox.connect(self._addresses[to])
            self._outboxes[to] = outbox
        return self._outboxes[to]

    def receive(self) -> Message:
        while True:
            # The word that the run is over may have been heard already, while we were sending.
            ready = dict(self._poller.poll(0 if self._line.finished else None))
            if self._inbox in ready:
                message = self._read(self._inbox.recv_multipart(copy=False))
                if message is not None:
                    return message
            elif self._line.finished:
                raise Finished
            if self._line.fileno() in ready:
                self._line.poll()

    def _read(self, parts: list[zmq.Frame]) -> Message | None:
        import torch

        try:
            if len(parts) != 2:
                raise WireError(f"{len(parts)} parts, not two")  # noqa: TRY301
            head, values = parts
            header = wire.decode(head.bytes, len(values.buffer), self._run)
            self._check_new(header)
        except WireError as error:
            self.dropped += 1
            _log.warning("dropped a frame: %s", error)
            return None
        self.received_bytes += header.num_bytes
        dtype = getattr(torch, header.dtype)
        if not header.num_bytes:
            return Message(header.sender, header.tag, torch.empty(header.shape, dtype=dtype))
        flat = torch.frombuffer(bytearray(values.buffer), dtype=dtype)
        return Message(header.sender, header.tag, flat.view(header.shape))

    def _check_new(self, header: wire.Header) -> None:
        """A sender counts its messages up: one that was sent again is taken once."""
        if header.sequence <= self._last_seen.get(header.sender, -1):
            raise WireError(f"message {header.sequence} of {header.sender} came again")
        self._last_seen[header.sender] = header.sequence

    def close(self) -> None:
        self._context.destroy(linger=_LINGER_MS)


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _memory_of(values: Tensor) -> memoryview:
    import torch

    return values.view(-1).view(torch.uint8).numpy().data
