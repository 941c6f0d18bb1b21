"""Utilisation: each link each way, each seat's thread, each node's cores, the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, final

if TYPE_CHECKING:
    from paceline.outcome.results import NodeUsage, Result, ServerTotals, WorkerTotals

ResourceKind = Literal["link", "thread", "cores", "disk", "host"]
_MEGA: Final = 1e6
# What a packet of TCP carries besides its payload; rates of links count it, bytes do not.
_HEADER_BYTES: Final = 66


@final
@dataclass(frozen=True, kw_only=True)
class Resource:
    """Something that seats share, and how much of it they used."""

    kind: ResourceKind
    where: str
    """A node or a seat; `host` is the machine itself."""
    label: str
    used: float | None
    """The part of it that was used while training, 1 being all; None where it has no known end."""
    text: str
    """The same in words."""


@final
@dataclass(frozen=True, kw_only=True)
class LinkUse:
    """A node's link, each way: the part of the time that its bytes take at its rate."""

    node: str
    bits_per_s: float
    """Of the slower way."""
    sent: float
    received: float

    @property
    def full(self) -> float:
        """How full the fuller way was; a link that was idle carries a little more for a moment."""
        return min(1.0, max(self.sent, self.received))

    @property
    def in_use(self) -> float:
        """How long something travelled, if one way was used after the other."""
        return self.sent + self.received


def links_of(result: Result) -> list[LinkUse]:
    """Give the links whose rate and bytes are known."""
    return [link for node in result.nodes if (link := _link(node, result)) is not None]


def resources_of(result: Result) -> list[Resource]:
    """Give all that is known, links first, the host last."""
    seats: list[WorkerTotals | ServerTotals] = [*result.workers, *result.servers]
    return [
        *_links(result),
        *(_thread(each, result) for each in seats if each.cpu_s is not None),
        *_cores(result),
        *_disks(result),
        *_host(result),
    ]


def wanted_share(seat: WorkerTotals | ServerTotals, train_s: float) -> float | None:
    """Say for which part of the time a seat's thread ran or was ready to run.

    A server's account also has what it did before and after, so there may be more of it than time.
    """
    if seat.cpu_s is None or seat.ready_s is None or not train_s:
        return None
    return min(1.0, (seat.cpu_s + seat.ready_s) / train_s)


def node_of(seat: str, result: Result) -> str:
    """Say where a seat sits."""
    return next((node.name for node in result.nodes if seat in node.seats), "node0")


def _link(node: NodeUsage, result: Result) -> LinkUse | None:
    out = node.link_sent_bits_per_s or node.link_bits_per_s
    back = node.link_received_bits_per_s or node.link_bits_per_s
    sent, received, seconds = node.net_sent_bytes, node.net_received_bytes, result.train_s
    if not out or not back or sent is None or received is None or not seconds:
        return None
    return LinkUse(
        node=node.name,
        bits_per_s=min(out, back),
        sent=8 * (sent + _HEADER_BYTES * (node.packets_sent or 0)) / out / seconds,
        received=8 * (received + _HEADER_BYTES * (node.packets_received or 0)) / back / seconds,
    )


def _links(result: Result) -> Iterator[Resource]:
    rates = {node.name: node.link_bits_per_s for node in result.nodes}
    for link in links_of(result):
        for way, used in (("out", link.sent), ("in", link.received)):
            rate = rates[link.node]
            of = f" of {rate / _MEGA:,.0f} Mbit/s" if rate else ""
            yield Resource(
                kind="link",
                where=link.node,
                label=f"{link.node} link {way}",
                used=used,
                text=f"{100 * used:.0f} %{of}",
            )


def _thread(seat: WorkerTotals | ServerTotals, result: Result) -> Resource:
    train_s = result.train_s or 1.0
    ran = (seat.cpu_s or 0.0) / train_s
    wanted = wanted_share(seat, train_s)
    held = "" if wanted is None else f"; waited for a core {100 * max(0.0, wanted - ran):.0f} %"
    return Resource(
        kind="thread",
        where=seat.name,
        label=f"{seat.name} thread",
        used=ran,
        text=f"ran {100 * ran:.0f} %{held}",
    )


def _cores(result: Result) -> Iterator[Resource]:
    for node in result.nodes:
        if node.cpu_node_percent_mean is not None:
            used = node.cpu_node_percent_mean / 100
            text = f"{node.cpu_percent_mean:.0f} % of one core"
            yield Resource(
                kind="cores", where=node.name, label=f"{node.name} cores", used=used, text=text
            )


def _disks(result: Result) -> Iterator[Resource]:
    """A disk's own limit is not known: only what was moved is told."""
    for node in result.nodes:
        seconds = result.train_s
        if node.disk_read_bytes is None or node.disk_written_bytes is None or not seconds:
            continue
        read, written = (
            each / seconds / _MEGA for each in (node.disk_read_bytes, node.disk_written_bytes)
        )
        text = f"read {read:,.1f} MB/s, written {written:,.1f} MB/s"
        yield Resource(
            kind="disk", where=node.name, label=f"{node.name} disk", used=None, text=text
        )


def _host(result: Result) -> Iterator[Resource]:
    for name, busy in sorted(result.disk_busy_percent.items()):
        text = f"{busy:.0f} % busy, by all programs"
        yield Resource(
            kind="disk", where="host", label=f"host disk {name}", used=busy / 100, text=text
        )
    if result.host_cpu_percent is not None:
        used = result.host_cpu_percent / 100
        yield Resource(
            kind="host",
            where="host",
            label="host, all cores",
            used=used,
            text=f"{100 * used:.0f} %, by all programs",
        )
