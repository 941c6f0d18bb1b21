"""What the keeper makes for the seats of emulated nodes, and what each seat finds there."""

from __future__ import annotations

from typing import Any, Final, final

from paceline.clusters.emulated.achieved import measure
from paceline.clusters.emulated.caps import Caps
from paceline.clusters.emulated.network import INTERFACE, Link, NodeNetwork, gain_rights
from paceline.clusters.emulated.plan import SitePlan
from paceline.clusters.site import Site, Surroundings
from paceline.comm.keeper_words import Built, LinkReport
from paceline.comm.meter import Carried
from paceline.reading import schema
from paceline.system.netlink import Queues

# How far a link may be off before every result says so.
_TOLERANCE: Final = 0.05


@final
class EmulatedSite(Site):
    """Network namespaces behind shaped links."""

    network: NodeNetwork

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = schema.read(SitePlan, plan, "plan", strict=True)
        gain_rights()
        cpus = {each.name: each.cpus for each in self._plan.nodes if each.cpus}
        self._caps = Caps(cpus, self._plan.mark)

    def build(self) -> Built:
        asked = [Link(each.name, each.bits_per_s, each.latency_s) for each in self._plan.nodes]
        self.network = NodeNetwork(asked)
        achieved, dilation = measure(self.network), self._plan.dilation
        links = [
            LinkReport(
                node=link.node,
                asked=link.bits_per_s * dilation,
                sent=achieved[link.node].sent_bits_per_s * dilation,
                received=achieved[link.node].received_bits_per_s * dilation,
            )
            for link in asked
        ]
        warnings = [text for each in links for text in _doubts(each)]
        if self._caps.refused:
            warnings.append(
                f"cluster.cpus has no effect, nodes may use all cores: {self._caps.refused}"
            )
        return Built(links=links, warnings=warnings, is_capped=not self._caps.refused)

    def enter(self, node: str) -> Surroundings:
        self._caps.enter(node)
        at_bridge = Queues()
        its = self.network.nodes[node]
        its.enter()
        inside = Queues()
        self.network.close()

        def carried() -> Carried:
            sent, received = inside.passed(its.interface), at_bridge.passed(its.port)
            return Carried.of(
                (sent.num_bytes, sent.num_packets), (received.num_bytes, received.num_packets)
            )

        return Surroundings(its.address, INTERFACE, carried)

    def cut(self, node: str, *, is_down: bool) -> None:
        self.network.cut(node, is_down=is_down)

    def remove(self) -> None:
        self._caps.remove()


def _doubts(link: LinkReport) -> list[str]:
    """Say which way a link does not carry what was asked for."""
    asked = link.asked
    return [
        f"{link.node}'s link {verb} {rate / 1e6:,.0f} Mbit/s before the run; "
        f"{asked / 1e6:,.0f} were configured"
        for rate, verb in ((link.sent, "sent"), (link.received, "received"))
        if asked and rate and abs(rate / asked - 1) > _TOLERANCE
    ]
