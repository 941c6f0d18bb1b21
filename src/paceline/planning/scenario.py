"""What is planned, as options or a TOML file give it; checked all at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Final, final

from annotated_types import Ge, Le
from pydantic import BeforeValidator

from paceline.arithmetic.costs import Costs
from paceline.description import (
    Bytes,
    Count,
    Description,
    Duration,
    NotNegative,
    Positive,
    Rate,
    parse_bytes,
)
from paceline.errors import Problem

MOST_MACHINES: Final = 10_000
STRATEGIES: Final = ("ring", "ddp", "ps-sync", "ps-async")


def parse_list(value: object) -> object:
    """Turn "1,2,4" into its parts; leave anything else to the type check."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


Counts = Annotated[
    tuple[Annotated[int, Ge(1), Le(MOST_MACHINES)], ...], BeforeValidator(parse_list)
]
Names = Annotated[tuple[str, ...], BeforeValidator(parse_list)]


@final
class LayerEntry(Description):
    """A layer of a model that is known by its figures only."""

    forward_s: NotNegative = 0.0
    backward_s: NotNegative = 0.0
    bytes: Annotated[int, BeforeValidator(parse_bytes), Ge(0)] = 0
    """Of its parameters."""

    @property
    def name(self) -> str:
        return "layer"


@final
class Scenario(Description):
    """Which machines, links and strategies are compared, and for how long training goes on."""

    machines: Counts = (1, 2, 4, 8, 16)
    """Numbers of machines, servers' own among them."""
    workers_per_node: Count = 1
    strategies: Names = STRATEGIES
    strategy: dict[str, Any] = field(default_factory=dict)
    """Fields of the strategies, for each that has them: `staleness = 2`."""
    servers: Counts = ()
    """Numbers of servers; unless given, one, and one beside every worker."""
    link: Rate = 1e9
    """Bandwidth of each machine, in each direction."""
    links: dict[str, Rate] = field(default_factory=dict)
    """Links that differ from the others, by node: `node2 = "100mbit"`."""
    latency: Duration = 0.0
    """One way, between any two machines."""
    uplink: Rate | None = None
    """What all machines of a rack share to other racks, in each direction."""
    rack: Count | None = None
    """Machines per rack."""
    slower: dict[str, Positive] = field(default_factory=dict)
    """How many times as long computing takes on a node: `node2 = 1.5`."""
    rows_per_s: Positive | None = None
    """What one worker makes alone, in place of a calibration."""
    step_factors: tuple[Positive, ...] = ()
    """How steps vary: some of them over the typical one."""
    model_bytes: Bytes | None = None
    """Of all parameters, of a model that is known by its size only."""
    layers: tuple[LayerEntry, ...] = ()
    """Or layer by layer, in the order they are computed."""
    batch: Count | None = None
    """Rows per worker per step."""
    costs: Costs | None = None
    """What handling messages costs; measured here unless given."""
    price: Positive | None = None
    """Per machine and hour."""
    samples: Count | None = None
    """Rows to train on, for time and cost."""

    @property
    def name(self) -> str:
        return "plan"

    def problems(self) -> Iterator[Problem]:
        if not self.machines:
            yield Problem("machines", "", "must be given, such as 1,2,4,8")
        if (self.uplink is None) != (self.rack is None):
            given = "uplink" if self.rack is None else "rack"
            missing = "rack" if self.rack is None else "uplink"
            reason = f"{given} is given too: racks share an uplink, so give both or neither"
            yield Problem(missing, None, reason)
        if not self.strategies:
            yield Problem("strategies", "", "must be given", STRATEGIES)
        most = max(self.machines, default=0)
        for key, table in (("links", self.links), ("slower", self.slower)):
            for node in table:
                if not _is_node(node, most):
                    reason = f"no such node: they are node0 to node{max(0, most - 1)}"
                    yield Problem(f"{key}.{node}", table[node], reason)

    @property
    def link_numbers(self) -> dict[int, float]:
        return {_number(node): rate for node, rate in self.links.items()}

    def slowness(self, num_nodes: int) -> tuple[float, ...]:
        """How many times as long computing takes, of as many nodes as that needs."""
        slow = {_number(node): factor for node, factor in self.slower.items()}
        known = min(num_nodes, max(slow, default=-1) + 1)
        return tuple(slow.get(node, 1.0) for node in range(known))


def _number(node: str) -> int:
    return int(node.removeprefix("node"))


def _is_node(node: str, most: int) -> bool:
    number = node.removeprefix("node")
    return node.startswith("node") and number.isdecimal() and int(number) < most
