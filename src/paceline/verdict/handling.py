"""What a run's own servers took for each byte, and how far its nodes are from each other."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from paceline.arithmetic.costs import Costs

if TYPE_CHECKING:
    from paceline.outcome.results import Result

_FLOAT_BYTES: Final = 4


def costs_of(result: Result) -> Costs | None:
    """Say what a server took to add and apply each byte; None where the run had no servers."""
    if not result.servers or not result.model_bytes:
        return None
    busiest = max(result.servers, key=lambda each: each.apply_s)
    moved = result.model_bytes
    if result.touched_rows is not None:
        moved = result.touched_rows * (result.row_bytes or _FLOAT_BYTES)
    part = moved / len(result.servers)
    if not busiest.updates or not part:
        return None
    # One worker's gradients are added to none.
    handled = result.num_workers + 1 if result.in_step and result.num_workers > 1 else 1
    per_byte = busiest.apply_s / busiest.updates / part / handled
    return Costs(add_s_per_byte=per_byte, apply_s_per_byte=per_byte)


def latency_of(result: Result) -> float:
    """Give the seconds from one node to another: on real machines half of there and back."""
    if result.pairs:
        return median(each.round_trip_s for each in result.pairs) / 2
    return result.latency_s
