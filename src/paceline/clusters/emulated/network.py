"""Nodes that are network namespaces, joined by a bridge in a namespace of its own.

No namespace has a name: each is held by descriptors of the process that made it, and of those it
forks. When the last of them ends the kernel takes everything apart. Links are pairs of virtual
interfaces, one end in the node, the other at the bridge; what leaves either end is held to the
link's rate, so a node sends and receives at that rate, both at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from paceline.clusters.emulated.bursts import LEGACY_LUMP_BYTES, Bursts
from paceline.system import linux, netlink

if TYPE_CHECKING:
    from pyroute2 import IPRoute

INTERFACE: Final = "eth0"
"""What a node's only link is called inside the node."""

_BRIDGE: Final = "bridge"
_PREFIX: Final = 16
# What waits in front of a link. Enough for the windows of several senders, so that a link that all
# send to delays them, which is what they notice, and drops nothing, which TCP would hide.
_QUEUE_BYTES: Final = 1 << 26
# How much of a link's time one sender may have on its way to it. With a whole window of the
# kernel's own in front of a slow link, whether a peer is alive would be asked for seconds.
_WINDOW_S: Final = 0.1
_LEAST_WINDOW_BYTES: Final = 1 << 15
_MOST_WINDOW_BYTES: Final = 6 << 20


# Rights that making namespaces and shaping links takes: numbers of bits.
_NET_ADMIN: Final = 12
_SYS_ADMIN: Final = 21


def gain_rights() -> None:
    """Be allowed to make networks: as root already is, or in a user namespace of our own."""
    status = Path("/proc/self/status").read_text().split()
    rights = int(status[status.index("CapEff:") + 1], 16)
    if not (rights >> _NET_ADMIN & rights >> _SYS_ADMIN & 1):
        linux.become_root_inside()


@final
@dataclass(frozen=True)
class Link:
    """What a node's link is asked to be."""

    node: str
    bits_per_s: float
    latency_s: float = 0.0


def try_out(latency_s: float) -> None:
    """Make a network of one node; whoever calls this cannot go back to where it was."""
    gain_rights()
    NodeNetwork([Link("node0", 1e9, latency_s)])


@final
@dataclass(frozen=True)
class Node:
    """A namespace and where it is reached."""

    name: str
    address: str
    bits_per_s: float
    """What its link is held to."""
    burst_bytes: int
    """How much it sends at once after it was idle."""
    namespace: int
    """A descriptor."""
    interface: int
    """The number of its link's interface, inside."""
    port: int
    """The number of the interface at the other end, at the bridge."""

    @contextlib.contextmanager
    def inside(self, hub: int) -> Iterator[None]:
        """Be in the node for a moment, and then at the bridge again."""
        linux.setns(self.namespace, linux.CLONE_NEWNET)
        try:
            yield
        finally:
            linux.setns(hub, linux.CLONE_NEWNET)

    def enter(self) -> None:
        """Stay in the node."""
        linux.setns(self.namespace, linux.CLONE_NEWNET)


@final
class NodeNetwork:
    """The bridge, and a node for each link. Whoever makes it is at the bridge from then on."""

    def __init__(self, links: Sequence[Link]) -> None:
        from pyroute2 import IPRoute

        linux.unshare(linux.CLONE_NEWNET)
        self.hub = _own_namespace()
        self.address = _address(0)
        self._bursts = Bursts([link.bits_per_s for link in links])
        with IPRoute() as route:
            _raise_loopback(route)
            bridge = _make_bridge(route, self.address, self._bursts.lump_bytes)
            self.nodes = {
                link.node: self._make_node(route, bridge, number, link)
                for number, link in enumerate(links, start=1)
            }

    def _make_node(self, route: IPRoute, bridge: int, number: int, link: Link) -> Node:
        linux.unshare(linux.CLONE_NEWNET)
        namespace = _own_namespace()
        linux.setns(self.hub, linux.CLONE_NEWNET)
        name = f"port{number}"
        peer = {"ifname": INTERFACE, "net_ns_fd": namespace}
        route.link("add", ifname=name, kind="veth", peer=peer)
        (port,) = route.link_lookup(ifname=name)
        burst_bytes = self._bursts.of(link.bits_per_s)
        _shape(route, port, link, burst_bytes)
        _limit_lumps(port, self._bursts.lump_bytes)
        route.link("set", index=port, master=bridge, state="up")
        address = _address(number)
        interface = self._set_up_inside(namespace, address, link, burst_bytes)
        linux.setns(self.hub, linux.CLONE_NEWNET)
        return Node(link.node, address, link.bits_per_s, burst_bytes, namespace, interface, port)

    def _set_up_inside(self, namespace: int, address: str, link: Link, burst_bytes: int) -> int:
        from pyroute2 import IPRoute

        linux.setns(namespace, linux.CLONE_NEWNET)
        _silence_ipv6()
        _limit_windows(link)
        _let_windows_decide()
        with IPRoute() as route:
            _raise_loopback(route)
            (index,) = route.link_lookup(ifname=INTERFACE)
            _shape(route, index, link, burst_bytes)
            if link.latency_s:
                delay_us = round(1e6 * link.latency_s)
                limit = _QUEUE_BYTES // 1500
                route.tc("add", "netem", index, "10:", parent="1:1", delay=delay_us, limit=limit)
            route.addr("add", index=index, address=address, prefixlen=_PREFIX)
            _limit_lumps(index, self._bursts.lump_bytes)
            route.link("set", index=index, state="up")
        return int(index)

    def cut(self, node: str, *, is_down: bool) -> None:
        """Take a node's link down at the bridge, or bring it up again."""
        from pyroute2 import IPRoute

        with IPRoute() as route:
            state = "down" if is_down else "up"
            route.link("set", index=self.nodes[node].port, state=state)

    def close(self) -> None:
        """Let go; what is left is held by whoever is inside."""
        for node in self.nodes.values():
            os.close(node.namespace)
        os.close(self.hub)


def _make_bridge(route: IPRoute, address: str, lump_bytes: int) -> int:
    _silence_ipv6()
    _call_no_firewall()
    route.link("add", ifname=_BRIDGE, kind="bridge")
    (index,) = route.link_lookup(ifname=_BRIDGE)
    route.addr("add", index=index, address=address, prefixlen=_PREFIX)
    netlink.limit_lumps(index, min(lump_bytes, LEGACY_LUMP_BYTES))
    route.link("set", index=index, state="up")
    return int(index)


def _limit_lumps(interface: int, num_bytes: int) -> None:
    """Have lumps of so many bytes, or as large as this kernel makes them."""
    try:
        netlink.limit_lumps(interface, num_bytes)
    except OSError:  # before Linux 6.3
        netlink.limit_lumps(interface, min(num_bytes, LEGACY_LUMP_BYTES))


def _shape(route: IPRoute, index: int, link: Link, burst_bytes: int) -> None:
    """Hold what leaves an interface to the link's rate."""
    rate = int(link.bits_per_s / 8)
    shape: dict[str, Any] = {"rate": rate, "burst": burst_bytes, "limit": _QUEUE_BYTES}
    route.tc("add", "tbf", index, "1:", **shape)


def _raise_loopback(route: IPRoute) -> None:
    route.link("set", index=1, state="up")


def _silence_ipv6() -> None:
    """Keep the kernel from asking around for neighbours that are not there: it would be counted."""
    for which in ("all", "default"):
        with contextlib.suppress(OSError):
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")


def _call_no_firewall() -> None:
    """Keep the bridge from showing every packet to rules, of which there are none here."""
    for which in ("iptables", "ip6tables", "arptables"):
        with contextlib.suppress(OSError):  # no such module
            Path(f"/proc/sys/net/bridge/bridge-nf-call-{which}").write_text("0")


def _limit_windows(link: Link) -> None:
    """Let senders have no more under way than the link carries in a moment."""
    moment_s = _WINDOW_S + 4 * link.latency_s
    wanted = int(link.bits_per_s / 8 * moment_s)
    most = min(_MOST_WINDOW_BYTES, max(_LEAST_WINDOW_BYTES, wanted))
    with contextlib.suppress(OSError):
        text = f"4096 {min(131072, most)} {most}"
        Path("/proc/sys/net/ipv4/tcp_rmem").write_text(text)


def _let_windows_decide() -> None:
    """Send as much as the receiver's window allows, whatever this machine's kernel prefers.

    Links here drop nothing. What looks for losses then fills them, and what paces itself by its own
    estimate of a link (bbr) falls behind whenever traffic comes in turns, by a tenth to a half.
    """
    for name in ("cubic", "reno"):  # not every namespace may have the first, all may the second
        with contextlib.suppress(OSError):
            Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(name)
            return


def _own_namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _address(number: int) -> str:
    return f"10.77.{number // 250}.{number % 250 + 1}"
