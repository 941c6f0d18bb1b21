"""How the seats that a keeper forks come to their lines to the driver."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import final

from paceline.comm.invitation import Invitation
from paceline.comm.line import Line
from paceline.comm.pair_line import PairLine
from paceline.comm.vocabularies import FROM_DRIVER


class SeatLines(ABC):
    """What the keeper has before it forks."""

    @abstractmethod
    def take(self, name: str) -> Line:
        """Give a seat its line; called in the seat, once."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all; called in the keeper."""


@final
class InheritedLines(SeatLines):
    """Ends of socket pairs, whose other ends the driver holds."""

    def __init__(self, ends: Mapping[str, int]) -> None:
        self._ends = ends

    def take(self, name: str) -> Line:
        for each, end in self._ends.items():
            if each != name:
                os.close(end)
        return PairLine(socket.socket(fileno=self._ends[name]), hears=FROM_DRIVER)

    def close(self) -> None:
        """Only a seat itself may hold its line, or its end would go unnoticed."""
        for end in self._ends.values():
            os.close(end)


@final
class InvitedLines(SeatLines):
    """Calls that each seat makes for itself."""

    def __init__(self, invitations: Sequence[Invitation]) -> None:
        self._invitations = {each.who: each for each in invitations}

    def take(self, name: str) -> Line:
        from paceline.comm.dialing import dial  # TLS, which only nodes of other machines need

        own = self._invitations[name]
        self._invitations.clear()  # a user's code will run here: it is not to call as another seat
        return dial(own, hears=FROM_DRIVER)

    def close(self) -> None:
        """There is nothing that a seat would hold."""
