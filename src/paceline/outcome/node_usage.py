"""What a node used while its seats trained: as they say themselves, and as its monitor saw it.

Seats count what they use exactly, whether a run is short or long. A monitor sees what they cannot:
children that still run, and memory that they share. What neither tells is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from paceline.outcome.accounts import SeatAccount
from paceline.outcome.facts import Facts
from paceline.outcome.results import NodeUsage, WorkerTotals
from paceline.outcome.traffic import NodeCount

Row = dict[str, Any]


# Over less than this, a processor's ticks of 10 ms are too coarse beside what seats count.
_LEAST_S: Final = 1.0
_NOTHING_SAID: Final = SeatAccount()


def node_usage(
    name: str,
    facts: Facts,
    rows: list[Row],
    workers: tuple[WorkerTotals, ...],
    *,
    said: Mapping[str, SeatAccount],
    network: Row,
) -> NodeUsage:
    """Sum up a node's rows of the time in which its seats trained, and what the seats said."""
    seats = facts.seats[name]
    train_s = max((each.train_s for each in workers), default=0.0)
    own_said = [said.get(seat, _NOTHING_SAID) for seat in seats]
    cpu_s = _sum([each.process_cpu_s for each in own_said])
    own = 100 * cpu_s / train_s if cpu_s is not None and train_s else None
    mean, peak = _cpu_percent(rows, own)
    memory = _memory(rows)
    peaks = [*memory, _sum([each.own_peak_bytes for each in own_said])]
    return NodeUsage(
        name=name,
        seats=tuple(seats),
        num_cores=facts.num_cores[name],
        threads=facts.node_threads.get(name, facts.threads),
        **network,
        device_busy_percent=_device_busy_percent(seats, workers),
        cpu_percent_mean=mean,
        cpu_percent_peak=peak,
        cpu_node_percent_mean=None if mean is None else mean / facts.num_cores[name],
        cpu_node_percent_peak=None if peak is None else peak / facts.num_cores[name],
        memory_mean_bytes=round(sum(memory) / len(memory)) if memory else None,
        memory_peak_bytes=_greatest(peaks),
        disk_read_bytes=_growth(rows, "disk_read_bytes"),
        disk_written_bytes=_growth(rows, "disk_written_bytes"),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Add up what all seats of a node said of themselves; None where one of them did not."""
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None


def _cpu_percent(rows: list[Row], own: float | None) -> tuple[float | None, float | None]:
    """Mean and peak of what was used of a core; `own` is the mean as the seats counted it."""
    pieces = [
        (row["time_s"] - before["time_s"], row["cpu_percent"])
        for before, row in _trained(rows)
        if row["cpu_percent"] is not None
    ]
    total_s = sum(length_s for length_s, _ in pieces)
    seen = sum(length_s * value for length_s, value in pieces) / total_s if total_s else None
    is_told = own is None or total_s >= _LEAST_S
    mean = _greatest([own, seen if is_told else None])
    # A sample that is cut short by the end of training is the least exact.
    longest_s = max((length_s for length_s, _ in pieces), default=0.0)
    whole = [value for length_s, value in pieces if is_told and length_s >= longest_s / 2]
    return mean, _greatest([mean, *whole])


def _memory(rows: list[Row]) -> list[int]:
    """What was held while training, the moment at which it began included."""
    moments = {id(row): row["memory_bytes"] for pair in _trained(rows) for row in pair}
    return [value for value in moments.values() if value]


def _trained(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Samples of training, each with the sample before it: it tells of the time between the two."""
    return [pair for pair in pairwise(rows) if pair[1]["phase"] == "training"]


def _greatest(values: Sequence[Any]) -> Any:
    return max((each for each in values if each is not None), default=None)


def _device_busy_percent(seats: list[str], workers: tuple[WorkerTotals, ...]) -> float | None:
    shares = [
        100 * each.device_busy_s / each.train_s
        for each in workers
        if each.name in seats and each.device_busy_s is not None and each.train_s
    ]
    return sum(shares) / len(shares) if shares else None


def link_fields(link: Mapping[str, float]) -> Row:
    """What was asked of a node's link, and what it did before the run; and the node's clock."""
    return {
        "link_bits_per_s": link.get("asked"),
        "link_sent_bits_per_s": link.get("sent"),
        "link_received_bits_per_s": link.get("received"),
        "clock_offset_s": link.get("clock_offset_s"),
        "clock_uncertainty_s": link.get("clock_uncertainty_s"),
    }


def network_fields(count: NodeCount | None) -> Row:
    """What went through it, where anybody counted."""
    if count is None:
        return {}
    return {
        # A packet that is not TCP's, as ARP's, is shorter than the headers that are taken off.
        "net_sent_bytes": max(0, count.sent_bytes),
        "net_received_bytes": max(0, count.received_bytes),
        "packets_sent": count.packets_sent,
        "packets_received": count.packets_received,
        "network_counted_by": count.counted_by,
    }


def _growth(rows: list[Row], key: str) -> int | None:
    """How much a counter grew while training."""
    covered = [(before[key], row[key]) for before, row in _trained(rows)]
    if not covered or any(value is None for pair in covered for value in pair):
        return None
    return sum(int(last) - int(first) for first, last in covered)
