"""The agents of a cluster, as the driver sees them: who was started, who has called."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from paceline.clusters.agents.pairs import Pairs
from paceline.clusters.agents.versions import differences
from paceline.comm.invitation import Invitation
from paceline.comm.keeper_words import FROM_AGENTS, Arrived
from paceline.comm.line import LineClosed
from paceline.comm.switchboard import Switchboard
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import NOTHING, Vocabulary
from paceline.errors import NodeMissing
from paceline.system.waiting import Deadline

_TICK_S: Final = 0.1
# An agent that has called says at once what its node is like.
_WORD_S: Final = 30.0
_MOST_NAMED: Final = 4


class Launch(ABC):
    """One agent's start, by somebody else's means."""

    @abstractmethod
    def failure(self) -> str | None:
        """Say why it did not start, or has ended; None while it goes on. Does not wait."""

    @abstractmethod
    def end(self) -> None:
        """Have it end, and return when it has, within seconds. Idempotent."""

    def end_lost(self) -> None:
        """Have it end at once, since its node is lost. Idempotent."""
        self.end()


class Launcher(ABC):
    """A way to start agents."""

    @abstractmethod
    def start(self, node: str, invitation: Invitation) -> Launch:
        """Start the agent of a node, and have it read its invitation; does not wait."""

    @abstractmethod
    def own_address(self, node: str) -> str:
        """Give the address of this machine that a node is to call."""

    @abstractmethod
    def label(self, node: str) -> str:
        """Name a node as its user knows it."""

    def prepare(
        self, nodes: Sequence[str], tell: Callable[[str], None]
    ) -> Callable[[], None] | None:
        """Do what is needed before these nodes can be named or called; gives what undoes it.

        That is called when their agents have ended.
        """
        del nodes, tell
        return None

    def most_cores(self, node: str) -> float | None:
        """Give how many cores of a node may be used; None: all it has."""
        del node
        return None

    def open_board(self, address: str, expected: Mapping[str, bytes]) -> Switchboard:
        """Listen at an address of this machine for agents, and for all others of their nodes."""
        return Switchboard(NOTHING, address, guests=as_guests(expected))

    def who(self, node: str) -> str:
        """Give what the agent of a node is called in its invitation."""
        return node

    def token(self, node: str) -> bytes | None:
        """Give what the agent of a node is to show, where it knows that already."""
        del node
        return None

    def expected(self) -> Mapping[str, bytes]:
        """Give who may call by itself before a run needs it, and what each is to show.

        Those are kept waiting until a run does, and are not started.
        """
        return {}

    def identity(self, node: str) -> Hashable:
        """Say what an agent must have been started with to serve as this one."""
        return (type(self), self.label(node))


def as_guests(expected: Mapping[str, bytes]) -> dict[str, tuple[bytes, Vocabulary]]:
    """Say of agents what a switchboard has to know of them."""
    return {who: (token, FROM_AGENTS) for who, token in expected.items()}


@final
@dataclass(frozen=True)
class Agent:
    """An agent that has called, and what it said of its node."""

    line: TcpLine
    arrived: Arrived
    board: Switchboard
    """Where it called, and where all others of its node are to call."""


@final
class Fleet:
    """One agent per node. Owned by the driver's thread; may serve several runs, one by one.

    Whoever makes it closes it, also where adding a node failed.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.labels: dict[str, str] = {}
        self.cores: dict[str, float] = {}
        """How many of each node may be used."""
        self._undoing: list[Callable[[], None]] = []
        self.pairs = Pairs()
        self._names: dict[str, str] = {}
        self._identities: dict[str, Hashable] = {}
        self._boards: dict[str, Switchboard] = {}
        self._expected: set[str] = set()
        """Who was invited when a board was opened, and has not been needed yet."""
        self._launches: dict[str, Launch] = {}
        self._lost: set[str] = set()

    def fits(self, nodes: Sequence[str], launcher: Launcher) -> bool:
        """Whether those of these nodes that it has are the same machines, reached the same way."""
        known = [node for node in nodes if node in self._identities]
        return all(self._identities[node] == launcher.identity(node) for node in known)

    def add(
        self,
        nodes: Sequence[str],
        launcher: Launcher,
        patience_s: float,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start agents for nodes that have none, and wait until all have called.

        Raises `NodeMissing` of one that has not. `tell` is called a few times per second with whom
        it waits for.
        """
        missing = [node for node in nodes if node not in self.agents]
        if missing and (undo := launcher.prepare(missing, tell)) is not None:
            self._undoing.append(undo)
        self.labels |= {node: launcher.label(node) for node in missing}
        self._identities |= {node: launcher.identity(node) for node in missing}
        self._names |= {node: launcher.who(node) for node in missing}
        boards = {node: self._board_at(launcher, launcher.own_address(node)) for node in missing}
        for node, board in boards.items():
            if self._names[node] not in self._expected:
                self._launches[node] = launcher.start(node, self._invited(node, board, launcher))
        self._gather(boards, launcher, patience_s, tell)
        self._check_versions()
        for node in missing:
            own, most = self.agents[node].arrived.cores, launcher.most_cores(node)
            self.cores[node] = own if most is None else min(own, most)

    def _board_at(self, launcher: Launcher, address: str) -> Switchboard:
        if address not in self._boards:
            expected = launcher.expected()
            self._boards[address] = launcher.open_board(address, expected)
            self._expected.update(expected)
        return self._boards[address]

    def _invited(self, node: str, board: Switchboard, launcher: Launcher) -> Invitation:
        return board.invite(self._names[node], hears=FROM_AGENTS, token=launcher.token(node))

    def _gather(
        self,
        boards: Mapping[str, Switchboard],
        launcher: Launcher,
        patience_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """Wait for all at once: the first that cannot come is the error, whoever is asked first."""
        deadline = Deadline(patience_s)
        for node, board in boards.items():
            agent = self._called(node, board, deadline, tell)
            if agent is None and self._names[node] in self._expected:
                self._invited(node, board, launcher)  # it came early, and has left again
                agent = self._called(node, board, deadline, tell)
            self._expected.discard(self._names[node])
            if agent is None:
                reason = "its agent called, and said nothing of its node"
                raise NodeMissing(self.labels[node], reason)
            self.agents[node] = agent

    def _called(
        self, node: str, board: Switchboard, deadline: Deadline, tell: Callable[[str], None]
    ) -> Agent | None:
        """Wait for an agent to call, and hear what its node is like; None: it did not say so."""
        line = awaited(
            board,
            self._names[node],
            self.labels[node],
            deadline,
            self.raise_if_lost,
            tell=lambda: tell(f"waiting for {self._missing()}"),
        )
        with contextlib.suppress(LineClosed):
            word = line.receive(_WORD_S)
            if isinstance(word, Arrived) and not _is_cut_off(line):
                return Agent(line, word, board)
        line.close()
        return None

    def raise_if_lost(self) -> None:
        """Raise `NodeMissing` of a node whose agent has ended, whoever is waited for."""
        for node, why in self.lost().items():
            raise NodeMissing(self.labels[node], why)

    def _missing(self) -> str:
        labels = [label for node, label in self.labels.items() if node not in self.agents]
        return ", ".join(labels[:_MOST_NAMED]) + (", ..." if labels[_MOST_NAMED:] else "")

    def _check_versions(self) -> None:
        for node, agent in self.agents.items():
            for problem in differences(agent.arrived.versions):
                raise NodeMissing(self.labels[node], problem)

    def lost(self) -> Mapping[str, str]:
        """Name the nodes whose agents have ended, each with the reason."""
        found = {node: each.failure() for node, each in self._launches.items()}
        ended = {node: why for node, why in found.items() if why is not None}
        lost = dict.fromkeys(self.cut_off(), "its agent is gone, or was cut off") | ended
        self._lost.update(lost)
        return lost

    def cut_off(self) -> list[str]:
        """Name the nodes of which nothing is heard any more; asks nobody else."""
        found = [node for node, each in self.agents.items() if _is_cut_off(each.line)]
        self._lost.update(found)
        return found

    @property
    def listeners(self) -> list[str]:
        """Where the driver listens for the processes of its nodes."""
        return [each.listens_at for each in self._boards.values()]

    @property
    def num_refused(self) -> int:
        """How many have called there whom nobody had invited."""
        return sum(each.num_refused for each in self._boards.values())

    def close(self) -> None:
        """Have all agents end. Idempotent."""
        self.cut_off()  # whose loss was not looked for yet is not waited for either
        for agent in self.agents.values():
            agent.line.close()
        for board in self._boards.values():
            board.close()
        for node in self._lost & self._launches.keys():
            self._launches[node].end_lost()
        for launch in self._launches.values():
            launch.end()
        while self._undoing:
            self._undoing.pop()()


def _is_cut_off(line: TcpLine) -> bool:
    """Whether a line has ended; an agent says nothing more, once it has said what it is."""
    try:
        line.receive(timeout_s=0)
    except LineClosed:
        return True
    return False


def awaited(
    board: Switchboard,
    who: str,
    label: str,
    deadline: Deadline,
    failure: Callable[[], str | None],
    *,
    tell: Callable[[], None] = lambda: None,
) -> TcpLine:
    """Wait for somebody to call; raises `NodeMissing` with why nobody does, once it is known."""
    while deadline.left_s:
        line = board.answered(who, _TICK_S)
        if line is not None:
            return line
        if (why := failure()) is not None:
            raise NodeMissing(label, why)
        tell()
    reason = f"did not call {board.host} port {board.port} within {deadline.timeout_s:g} s"
    raise NodeMissing(label, f"{reason}: is that address reached from there, past any firewall?")
