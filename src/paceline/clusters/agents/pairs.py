"""The ways between the nodes of a fleet, measured pair by pair before a run."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import Final, final

from paceline.clusters.agents.probing import rounds
from paceline.comm.keeper_words import (
    Expect,
    Expecting,
    LinkReport,
    PairReport,
    Probe,
    Probed,
    Unprobed,
)
from paceline.comm.line import Line, LineClosed
from paceline.comm.words import Word
from paceline.system.waiting import time_left

_TOKEN_BYTES: Final = 32
# Longer than agents try, so that they say why it failed.
_PATIENCE_S: Final = 15.0

Pair = tuple[str, str]
ProbeAnswer = Expecting | Probed | Unprobed


@final
class Pairs:
    """What is known of the ways between nodes; each is measured once for all runs of a fleet."""

    def __init__(self) -> None:
        self.problems: dict[Pair, str] = {}
        """Why the way between two nodes could not be measured."""
        self._known: dict[tuple[str, str, str | None], PairReport] = {}

    def measured(
        self,
        nodes: Sequence[str],
        interface: str | None,
        line_to: Callable[[str], Line],
        raise_if_lost: Callable[[], None] = lambda: None,
    ) -> list[PairReport]:
        """Give what each node's way to each other carries; those not known are measured now.

        `raise_if_lost` is called before each round, so that a node that is gone is not asked on.
        """
        for pairs in rounds(sorted(nodes)):
            raise_if_lost()
            fresh = [each for each in pairs if (*each, interface) not in self._known]
            self._measure(fresh, interface, line_to)
        wanted = [(one, other, interface) for one in nodes for other in nodes if one != other]
        return [self._known[each] for each in wanted if each in self._known]

    def _measure(
        self, pairs: Sequence[Pair], interface: str | None, line_to: Callable[[str], Line]
    ) -> None:
        """Measure pairs that have no node in common, all at once."""
        tokens = {pair: secrets.token_hex(_TOKEN_BYTES) for pair in pairs}
        for pair in pairs:
            self.problems.pop(pair, None)
            _say(line_to(pair[1]), Expect(token=tokens[pair], interface=interface))
        calling = []
        for pair in pairs:
            door = _heard(line_to(pair[1]), tokens[pair])
            if isinstance(door, Expecting):
                word = Probe(token=tokens[pair], address=door.address, port=door.port)
                _say(line_to(pair[0]), word)
                calling.append(pair)
            else:
                self.problems[pair] = _reason(door)
        for pair in calling:
            words = [_heard(line_to(node), tokens[pair]) for node in pair]
            self._note(pair, interface, words)

    def _note(self, pair: Pair, interface: str | None, words: Sequence[ProbeAnswer | None]) -> None:
        """Keep what both ends found out; of the round trip, what the one that called did."""
        calls, called = words
        if not (isinstance(calls, Probed) and isinstance(called, Probed)):
            self.problems[pair] = _reason(called if isinstance(calls, Probed) else calls)
            return
        caller, callee = pair
        ways = [(caller, callee, called.received), (callee, caller, calls.received)]
        for sender, receiver, bits_per_s in ways:
            self._known[sender, receiver, interface] = PairReport(
                sender=sender,
                receiver=receiver,
                bits_per_s=bits_per_s,
                round_trip_s=calls.round_trip_s,
            )


def link_of(node: str, pairs: Sequence[PairReport]) -> LinkReport:
    """Say what a node's link carries: no less than its best way to another node."""
    sent = [each.bits_per_s for each in pairs if each.sender == node]
    received = [each.bits_per_s for each in pairs if each.receiver == node]
    return LinkReport(node=node, sent=max(sent, default=None), received=max(received, default=None))


def _say(line: Line, word: Word) -> None:
    try:
        line.send(word)
    except LineClosed:
        return  # who waits for its answer notices


def _heard(line: Line, token: str) -> ProbeAnswer | None:
    """Wait for what is said of one pair; what was meant for an earlier one comes too late."""
    with contextlib.suppress(LineClosed):
        for left_s in time_left(_PATIENCE_S):
            word = line.receive(left_s)
            if isinstance(word, ProbeAnswer) and word.token == token:
                return word
    return None


def _reason(word: ProbeAnswer | None) -> str:
    return word.reason if isinstance(word, Unprobed) else "no answer"
