"""A latency that seats make themselves, because the network cannot: who cannot have it, a label."""

from __future__ import annotations

from paceline.errors import Problem, SpecError
from paceline.spec import RunSpec


def check_latency(spec: RunSpec) -> None:
    """Refuse a strategy whose messages are not ours to hold."""
    held_s = spec.cluster.holds_messages_s
    if held_s and spec.strategy.connects_itself:
        reason = (
            "this kernel has no sch_netem and cannot delay packets; messages are delayed by "
            f"Paceline's own channels then, and {spec.strategy.name} has connections of its own"
        )
        raise SpecError([Problem("cluster.latency_s", held_s, reason, ("0",))])


def latency_notes(spec: RunSpec) -> list[str]:
    """Say in the result what kind of latency a run had."""
    held_s = spec.cluster.holds_messages_s
    if not held_s:
        return []
    note = (
        "latency: this kernel cannot delay packets (no sch_netem); each message between nodes was "
        f"held for {1000 * held_s:g} ms by its receiver's channel instead"
    )
    return [note]
