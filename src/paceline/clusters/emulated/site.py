"""What the keeper makes for the seats of emulated nodes, and what each seat finds there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from paceline.clusters.emulated.achieved import measure
from paceline.clusters.emulated.caps import Caps
from paceline.clusters.emulated.network import INTERFACE, Link, Network, Node, gain_rights
from paceline.comm.mailbox import Mailbox, tcp_mailbox
from paceline.comm.meter import Carried, Meter
from paceline.netlink import Queues

Table = dict[str, Any]

# How far a link may be off before every result says so.
_TOLERANCE: Final = 0.05


@final
class Site:
    """The nodes of one run. Used by the keeper; forked seats enter."""

    interface: Final = INTERFACE
    network: Network

    def __init__(self, nodes: Sequence[Table], mark: str) -> None:
        """Gain the rights it takes, and make what must outlive the nodes."""
        self._nodes = nodes
        gain_rights()
        cpus = {each["name"]: each["cpus"] for each in nodes if each["cpus"]}
        self.caps = Caps(cpus, mark)

    def build(self, dilation: float) -> Table:
        """Make the nodes and measure their links; returns what to tell the driver."""
        asked = [Link(each["name"], each["bits_per_s"], each["latency_s"]) for each in self._nodes]
        self.network = Network(asked)
        achieved = measure(self.network)
        links = [
            {
                "node": link.node,
                "asked": link.bits_per_s * dilation,
                "sent": achieved[link.node].sent_bits_per_s * dilation,
                "received": achieved[link.node].received_bits_per_s * dilation,
            }
            for link in asked
        ]
        warnings = [text for each in links for text in _doubts(each)]
        if self.caps.refused:
            warnings.append(
                f"cluster.cpus has no effect, nodes may use all cores: {self.caps.refused}"
            )
        return {"links": links, "warnings": warnings, "is_capped": not self.caps.refused}

    def mailbox(self, node: str) -> Mailbox:
        """Make a mailbox that listens in a node."""
        with self._node(node).inside(self.network.hub):
            return tcp_mailbox(self._node(node).address)

    def enter(self, node: str) -> Meter:
        """Be in a node from now on; returns what its link has carried."""
        self.caps.enter(node)
        at_bridge = Queues()
        its = self._node(node)
        its.enter()
        inside = Queues()
        self.network.close()

        def carried() -> Carried:
            sent, received = inside.passed(its.interface), at_bridge.passed(its.port)
            return Carried.of(
                (sent.num_bytes, sent.num_packets), (received.num_bytes, received.num_packets)
            )

        return carried

    def address(self, node: str) -> str:
        """Where a node is reached by the others."""
        return self._node(node).address

    def _node(self, name: str) -> Node:
        return self.network.nodes[name]


def _doubts(link: Table) -> list[str]:
    """Say which way a link does not carry what was asked for."""
    return [
        f"{link['node']}'s link {verb} {link[which] / 1e6:,.0f} Mbit/s before the run; "
        f"{link['asked'] / 1e6:,.0f} were configured"
        for which, verb in (("sent", "sent"), ("received", "received"))
        if abs(link[which] / link["asked"] - 1) > _TOLERANCE
    ]
