"""Which strategies, numbers of servers and placements are tried on so many machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from paceline.arithmetic.exchange import ExchangePattern, as_in_script
from paceline.errors import Problem, SpecError
from paceline.parts import build_part
from paceline.planning.scenario import Scenario
from paceline.strategies import STRATEGIES
from paceline.strategies.base import Strategy
from paceline.strategies.local import Single


@final
@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to use so many machines."""

    label: str
    strategy: Strategy
    exchange: ExchangePattern
    num_machines: int
    num_nodes: int
    """Those that have workers."""
    num_workers: int


def candidates(
    scenario: Scenario, num_machines: int, *, is_script: bool = False
) -> Iterator[Candidate]:
    """Give every way to use so many machines that can be planned.

    `is_script`: what is trained has a loop of its own, so nothing leaves before backward has ended.
    """
    for each in _candidates(scenario, num_machines):
        exchange = as_in_script(each.exchange) if is_script else each.exchange
        yield dataclasses.replace(each, exchange=exchange)


def _candidates(scenario: Scenario, num_machines: int) -> Iterator[Candidate]:
    if num_machines == 1 and scenario.workers_per_node == 1:
        yield _made(Single(), scenario, 1, "single")
        return
    for name in scenario.strategies:
        base = strategy_of(name, scenario)
        if not base.num_servers:
            yield _made(base, scenario, num_machines, name)
            continue
        for count in _server_counts(scenario, num_machines):
            for placement in ("beside", "separate"):
                if placement == "separate" and count >= num_machines:
                    continue
                fields = {"servers": count, "placement": placement}
                label = _label(name, count, num_machines, placement)
                yield _made(strategy_of(name, scenario, fields), scenario, num_machines, label)


def _server_counts(scenario: Scenario, num_machines: int) -> list[int]:
    wanted = scenario.servers or (1, num_machines)
    return sorted({count for count in wanted if count <= num_machines})


def _label(name: str, count: int, num_machines: int, placement: str) -> str:
    servers = f"{count} server{'s'[: count - 1]}"
    if placement == "separate":
        return f"{name}, {servers} apart"
    return f"{name}, a server beside each" if count == num_machines else f"{name}, {servers}"


def in_text(label: str) -> str:
    """Give a candidate's name as it can stand in a list: its servers in brackets."""
    name, comma, servers = label.partition(", ")
    return f"{name} ({servers})" if comma else name


def _made(strategy: Strategy, scenario: Scenario, num_machines: int, label: str) -> Candidate:
    apart = strategy.num_servers if strategy.servers_apart else 0
    num_nodes = num_machines - apart
    num_workers = num_nodes * scenario.workers_per_node
    exchange = strategy.pattern(num_workers)
    assert exchange is not None, f"{strategy.name} was checked before"
    return Candidate(
        label=label,
        strategy=strategy,
        exchange=exchange,
        num_machines=num_machines,
        num_nodes=num_nodes,
        num_workers=num_workers,
    )


def strategy_of(name: str, scenario: Scenario, more: dict[str, Any] | None = None) -> Strategy:
    """Build a strategy with those of the scenario's fields that it has."""
    plain: Strategy = build_part("strategy", {"strategy": {"name": name}})
    own = {each.name for each in dataclasses.fields(plain)}
    given = {key: value for key, value in scenario.strategy.items() if key in own}
    made: Strategy = build_part("strategy", {"strategy": {"name": name, **given, **(more or {})}})
    return made


def strategy_problems(scenario: Scenario, *, is_script: bool = False) -> Iterator[Problem]:
    """Say which strategies there are not, or cannot be planned, and which fields none has."""
    known: set[str] = set()
    for name in scenario.strategies:
        try:
            made = strategy_of(name, scenario)
        except SpecError as error:
            yield from error.problems
            continue
        known |= {each.name for each in dataclasses.fields(made)}
        if made.pattern(2) is None:
            reason = "does not say how it exchanges gradients (Strategy.pattern)"
            yield Problem("strategies", name, reason, tuple(STRATEGIES.entries))
        elif is_script and made.scripts is None:
            reason = "this strategy applies updates itself, so it cannot run a script"
            yield Problem("strategies", name, reason)
        elif made.counts_steps is False or isinstance(made, Single):
            reason = "trains no shared model on several machines"
            yield Problem("strategies", name, reason, ("ring", "ddp", "ps-sync", "ps-async"))
    for key in sorted(scenario.strategy.keys() - known):
        reason = "none of the strategies has such a field"
        yield Problem(f"strategy.{key}", scenario.strategy[key], reason, tuple(sorted(known)))


def count_problems(scenario: Scenario) -> Iterator[Problem]:
    """Say where nothing is left to be planned: more servers than there are machines."""
    if scenario.machines and not any(any(candidates(scenario, n)) for n in scenario.machines):
        reason = f"more servers than any number of machines has: {max(scenario.machines)} at most"
        yield Problem("servers", ",".join(map(str, scenario.servers)), reason)
