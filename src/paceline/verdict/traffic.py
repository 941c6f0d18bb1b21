"""How many bytes cross the busiest link in a step, in models: what a change of layout changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from paceline.arithmetic.all_reduce import around_ring
from paceline.arithmetic.closed_form import busiest_bytes
from paceline.arithmetic.exchange import Servers
from paceline.seats import role_of

if TYPE_CHECKING:
    from paceline.outcome.results import Result


@final
@dataclass(frozen=True, kw_only=True)
class Layout:
    """Who sits where, as far as bytes are concerned."""

    num_workers: int
    num_servers: int
    num_nodes: int
    beside: bool
    """Whether servers sit on nodes that have a worker too."""

    @staticmethod
    def of(result: Result) -> Layout:
        roles = [{role_of(seat) for seat in node.seats} for node in result.nodes]
        return Layout(
            num_workers=result.num_workers,
            num_servers=len(result.servers),
            num_nodes=len([each for each in roles if each]),
            beside=any(each == {"worker", "server"} for each in roles),
        )

    def with_workers(self, num_workers: int) -> Layout:
        more = num_workers - self.num_workers
        return replace(self, num_workers=num_workers, num_nodes=self.num_nodes + more)


def ps_load(layout: Layout, num_servers: int, *, in_turn: bool = False) -> float:
    """Into the busiest node: each worker's part of its gradients, and what others answer.

    `in_turn`: answers come only after all gradients, as those of a small model do, and so do not
    share the link with them.
    """
    if layout.beside and layout.num_workers == 1:
        return 1.0
    exchange = Servers(num_servers=num_servers, apart=not layout.beside)
    load = busiest_bytes(1.0, layout.num_workers, exchange, in_turn=in_turn)
    return load or 1.0


def ring_load(layout: Layout) -> float:
    """Each way, on every node."""
    return around_ring(layout.num_workers)
