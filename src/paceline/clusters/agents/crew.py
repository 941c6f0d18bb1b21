"""The seats of one run on the nodes of a fleet, as the driver sees them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

from paceline.clusters.agents.addresses import is_loopback
from paceline.clusters.agents.fleet import Agent, Fleet, awaited
from paceline.clusters.agents.pairs import link_of
from paceline.clusters.base import Crew, Departure, Job
from paceline.clusters.kept import KeptNode
from paceline.clusters.luggage import Packed
from paceline.comm.keeper_words import FROM_KEEPERS, KeepSeats, LinkReport, PairReport, Serve
from paceline.comm.line import Line, LineClosed
from paceline.comm.roster import Seat
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import said_by
from paceline.comm.words import Word
from paceline.errors import NodeMissing
from paceline.system.waiting import Deadline

# How long a keeper or a seat has to call: its agent imports torch for the first of them.
_CALLING_S: Final = 120.0
# How well a node's clock should be known.
_SURE_S: Final = 1e-3


@final
class AgentsCrew(Crew):
    """A keeper per node, forked by the node's agent; seats are the keepers' children."""

    def __init__(
        self,
        job: Job,
        fleet: Fleet,
        *,
        encrypts: bool,
        let_go: Callable[[], None],
        interface: str | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        """`let_go` is called at the end: the fleet goes with the run, unless others use it.

        `interface` is the network interface of each node to use, if not the one that leads here;
        `ports`, where seats are to listen, for those that are not to choose.
        """
        self._ports = ports or {}
        self._interface = interface
        self._fleet = fleet
        self._refused_before = fleet.num_refused
        self._let_go = let_go
        self._is_over = False
        self._nodes: dict[str, KeptNode] = {}
        self._left: list[Departure] = []
        """Heard of while others were still to call."""
        self._threads: dict[str, int] = {}
        self._tell = job.tell
        self.pairs: Sequence[PairReport] = ()
        self.lines: dict[str, Line] = {}
        orders = job.orders(medium="tcp", encrypts=encrypts, sees_folder=False)
        try:
            self._start(job, orders)
        except BaseException:
            self.end()
            raise

    def _start(self, job: Job, orders: Orders) -> None:
        by_node: dict[str, list[Seat]] = {}
        for seat in job.seats:
            by_node.setdefault(seat.node, []).append(seat)
        self._refuse_loopback([*by_node])
        self.pairs = self._fleet.pairs.measured(
            [*by_node],
            self._interface,
            lambda node: self._fleet.agents[node].line,
            self._fleet.raise_if_lost,
        )
        imports = [job.module, *job.imports]
        for node in by_node:
            agent = self._fleet.agents[node]
            invitation = agent.board.invite(_keeper_of(node), hears=FROM_KEEPERS)
            self._say(node, agent.line, Serve(invitation=invitation, imports=imports))
        for node, seats in by_node.items():
            self._tell(f"{self._fleet.labels[node]} imports torch")
            self._threads[node] = self._threads_on(job, node, seats)
            own = dataclasses.replace(orders, threads=self._threads[node])
            self._nodes[node] = self._kept(node, seats, own, job.luggage)
        for seat in job.seats:
            board = self._fleet.agents[seat.node].board
            self.lines[seat.name] = awaited(
                board, seat.name, seat.name, Deadline(_CALLING_S), partial(self._failure_of, seat)
            )

    def _refuse_loopback(self, nodes: Sequence[str]) -> None:
        """Raise `NodeMissing` of a node where other machines would look for it on themselves."""
        arrived = {node: self._fleet.agents[node].arrived for node in nodes}
        if self._interface is not None or len({each.host for each in arrived.values()}) < 2:
            return
        for node, each in arrived.items():
            if is_loopback(each.address):
                hint = "cluster.address names this machine's address on the network of the nodes"
                reason = f"it calls from {each.address}, where no other node finds it: {hint}"
                raise NodeMissing(self._fleet.labels[node], reason)

    def _threads_on(self, job: Job, node: str, seats: Sequence[Seat]) -> int:
        """Share the cores of a node among its own workers."""
        num_workers = sum(seat.role == "worker" for seat in seats)
        if job.threads_on is None:
            return job.threads
        return job.threads_on(self.cores[node], max(1, num_workers))

    def _kept(
        self, node: str, seats: Sequence[Seat], orders: Orders, luggage: Sequence[Packed]
    ) -> KeptNode:
        agent: Agent = self._fleet.agents[node]
        line = awaited(
            agent.board,
            _keeper_of(node),
            self._fleet.labels[node],
            Deadline(_CALLING_S),
            self._fleet.raise_if_lost,
        )
        for piece in (word for each in luggage for word in each.words()):
            self._say(node, line, piece)
        word = KeepSeats(
            orders=orders,
            seats=[*seats],
            shares_memory=True,
            invitations=[agent.board.invite(seat.name, hears=said_by(seat.role)) for seat in seats],
            label=self._fleet.labels[node],
            interface=self._interface,
            ports={seat.name: self._ports[seat.name] for seat in seats if seat.name in self._ports},
        )
        self._say(node, line, word)
        names = [seat.name for seat in seats]
        return KeptNode(line, names, f"{self._fleet.labels[node]} is gone, or was cut off")

    def _say(self, node: str, line: Line, word: Word) -> None:
        """Say something on a line to a node; raises `NodeMissing` if nobody hears it there."""
        try:
            line.send(word)
        except LineClosed as error:
            self._fleet.raise_if_lost()  # which may know more, or that it was another's doing
            raise NodeMissing(self._fleet.labels[node], f"its line has ended: {error}") from error

    def _failure_of(self, seat: Seat) -> str | None:
        """Why a seat will not call any more, if so. Who else has left is told of later."""
        self._left += self._newly_left()
        reasons = [each.reason for each in self._left if each.seat == seat.name]
        return (reasons[0] or "it has ended") if reasons else None

    @property
    def links(self) -> Sequence[LinkReport]:
        """Give what nodes' ways to others carry, and their clocks, when all keepers have called."""
        if any(each.pid is None for each in self._nodes.values()):
            return ()
        return [
            dataclasses.replace(
                link_of(node, self.pairs),
                clock_offset_s=each.clock_offset_s,
                clock_uncertainty_s=each.clock_uncertainty_s,
            )
            for node, each in self._nodes.items()
        ]

    @property
    def cores(self) -> Mapping[str, float]:
        return self._fleet.cores

    @property
    def labels(self) -> Mapping[str, str]:
        return self._fleet.labels

    @property
    def threads(self) -> Mapping[str, int]:
        return self._threads

    @property
    def warnings(self) -> Sequence[str]:
        told = [text for each in self._nodes.values() for text in each.built.warnings]
        return [*told, *self._unmeasured(), *self._unsure_clocks()]

    def _unmeasured(self) -> list[str]:
        labels = self._fleet.labels
        return [
            f"the way between {labels[one]} and {labels[other]} could not be measured: {why}"
            for (one, other), why in self._fleet.pairs.problems.items()
            if one in self._nodes and other in self._nodes
        ]

    def _unsure_clocks(self) -> list[str]:
        clocks = {node: each.clock_uncertainty_s or 0.0 for node, each in self._nodes.items()}
        return [
            f"the clock of {self._fleet.labels[node]} is known to ± {1e3 * unsure_s:.1f} ms only: "
            "moments of its records may be off by that much"
            for node, unsure_s in clocks.items()
            if unsure_s > _SURE_S
        ]

    @property
    def listeners(self) -> Sequence[str]:
        return self._fleet.listeners

    @property
    def num_refused(self) -> int:
        return self._fleet.num_refused - self._refused_before

    @property
    def is_seated(self) -> bool:
        return all(each.is_seated for each in self._nodes.values())

    def departures(self) -> list[Departure]:
        left, self._left = [*self._left, *self._newly_left()], []
        return left

    def _newly_left(self) -> list[Departure]:
        left = [left for each in self._nodes.values() for left in each.departures()]
        for node, why in self._fleet.lost().items():
            if node in self._nodes:  # with its agent gone, nobody answers for what happens there
                left += self._nodes[node].give_up(f"{self._fleet.labels[node]} is lost: {why}")
        return left

    def _is_lost(self, node: str) -> bool:
        return node in self._fleet.cut_off()

    def dump_stack(self, seat: str) -> None:
        for node in self._nodes.values():
            node.dump_stack(seat)

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        for line in self.lines.values():
            line.close()
        for node in self._nodes.values():
            node.line.finish()
        for name, node in self._nodes.items():
            node.is_gone(partial(self._is_lost, name))
            node.line.close()
        with contextlib.suppress(LineClosed):
            self._let_go()


def _keeper_of(node: str) -> str:
    return f"keeper of {node}"
