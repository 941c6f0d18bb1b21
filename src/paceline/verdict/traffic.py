"""How many bytes cross the busiest link in a step, in models: what a change of layout changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from paceline.results import Result


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
        roles = [{seat.rstrip("0123456789") for seat in node.seats} for node in result.nodes]
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
    part = 1 / num_servers
    if not layout.beside:
        return max(layout.num_workers * part, 1.0)
    if layout.num_workers == 1:
        return 1.0
    answers = 0.0 if in_turn else 1 - part
    return max((layout.num_workers - 1) * part + answers, 1 - part)


def ring_load(layout: Layout) -> float:
    """Each way, on every node."""
    return 2 * (layout.num_workers - 1) / layout.num_workers
