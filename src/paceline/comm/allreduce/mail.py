"""The messages of an all-reduce, told apart from those of earlier and later formations."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import final

from paceline.comm.base import Channel, Message, Regrouped


@final
class Mail:
    """A seat's channel, and what has come through it too early. One per seat, for all formations.

    The tag of a message is the epoch of the formation that it belongs to.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._early: deque[Message] = deque()
        self._aside: dict[str, deque[Message]] = {}
        self.beside = ExitStack()
        """Connections of the formation that there is now."""
        channel.closes_too.callback(self.hang_up)

    def hang_up(self) -> None:
        """Close what a formation has beside the channel: it is over. Idempotent."""
        self.beside.close()

    def receive(self, epoch: int) -> Message:
        """Wait for the next message of an epoch. Raises `Regrouped` when one of a later one comes.

        That one is kept for whoever asks for it; those of earlier ones are counted and dropped.
        """
        while True:
            message = self._early.popleft() if self._early else self.channel.receive()
            if self._is_of(epoch, message):
                return message

    def _is_of(self, epoch: int, message: Message) -> bool:
        if message.tag > epoch:
            self._early.appendleft(message)
            raise Regrouped(f"{message.sender} is in epoch {message.tag}, this is {epoch}")
        self.channel.dropped += message.tag < epoch
        return message.tag == epoch

    def receive_from(self, sender: str, epoch: int) -> Message:
        """Wait for the next message of one sender; those of others are kept until asked for.

        Ranks are not all equally far: one may have begun what comes next.
        """
        aside = self._aside.get(sender)
        while aside:
            message = aside.popleft()
            if message.tag == epoch:
                return message
            self.channel.dropped += 1  # of a formation that is over
        while (message := self.receive(epoch)).sender != sender:
            self._put_aside(message)
        return message

    def _put_aside(self, message: Message) -> None:
        self._aside.setdefault(message.sender, deque()).append(message)

    def look(self, epoch: int) -> None:
        """Put aside what has come; for whoever waits for something else than a message.

        Raises what would end a wait for one.
        """
        while True:
            message = self._early.popleft() if self._early else self.channel.glance()
            if message is None:
                return
            if self._is_of(epoch, message):
                self._put_aside(message)

    def has_of(self, sender: str, epoch: int) -> bool:
        """Whether something of a sender was put aside that belongs to an epoch."""
        return any(message.tag == epoch for message in self._aside.get(sender, ()))
