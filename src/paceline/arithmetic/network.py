"""Links, racks and latency: what crosses what, and at which rate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, final

# Of a full Ethernet frame of 1,514 bytes, TCP with time stamps carries 1,448.
PAYLOAD_SHARE: Final = 1448 / 1514
HEADER_BYTES: Final = 100
"""About what our frame, ZeroMQ's and a packet's headers add to a message."""


@final
@dataclass(frozen=True, kw_only=True, order=True)
class LinkRate:
    """A link that carries as much out as in, at once."""

    bits_per_s: float

    @property
    def bytes_per_s(self) -> float:
        """Of values, without the headers of packets."""
        return self.bits_per_s / 8 * PAYLOAD_SHARE

    def times(self, factor: float) -> LinkRate:
        return LinkRate(bits_per_s=factor * self.bits_per_s)

    def seconds(self, num_bytes: float) -> float:
        """How long so many bytes of values take to cross it one way."""
        return num_bytes / self.bytes_per_s


@final
@dataclass(frozen=True, kw_only=True)
class Network:
    """Every node has a link of its own; racks of nodes may share one uplink."""

    link: LinkRate
    links: dict[int, LinkRate] = field(default_factory=dict)
    """Links that differ from the others, by the number of the node."""
    latency_s: float = 0.0
    """One way, from any node to any other."""
    uplink: LinkRate | None = None
    """What all nodes of a rack share on the way to other racks, in each direction."""
    rack: int | None = None
    """How many nodes a rack has."""
    burst_s: float = 0.0
    """How much of its time a link makes good after it was idle: emulated ones do, by a little."""

    def link_of(self, node: int) -> LinkRate:
        return self.links.get(node, self.link)

    def slowest(self, num_nodes: int) -> LinkRate:
        """Give the slowest of the links of so many nodes."""
        rates = [each.bits_per_s for node, each in self.links.items() if node < num_nodes]
        if len(rates) < num_nodes:
            rates.append(self.link.bits_per_s)
        return LinkRate(bits_per_s=min(rates))

    def rack_of(self, node: int) -> int:
        return node // self.rack if self.rack and self.uplink else 0

    def num_racks(self, num_nodes: int) -> int:
        return self.rack_of(num_nodes - 1) + 1

    @property
    def is_uniform(self) -> bool:
        """Whether all nodes are alike and nothing is shared."""
        return not self.links and self.uplink is None

    def without_latency(self) -> Network:
        return replace(self, latency_s=0.0)


def straight(bits_per_s: float, **more: float) -> Network:
    """Make a network whose nodes have equal links, and nothing else."""
    return Network(link=LinkRate(bits_per_s=bits_per_s), **more)  # type: ignore[arg-type]
