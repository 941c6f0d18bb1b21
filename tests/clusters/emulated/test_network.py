"""Nodes and links, made in a child process that takes them with it when it ends."""

import json
import os
import socket

import pytest
from pyroute2 import IPRoute

from paceline.clusters.emulated.achieved import measure
from paceline.clusters.emulated.bursts import LEGACY_LUMP_BYTES
from paceline.clusters.emulated.network import INTERFACE, Link, NodeNetwork, gain_rights
from paceline.comm.meter import HEADER_BYTES
from paceline.system.attempts import attempt
from paceline.system.netlink import Queues


def in_a_child(action) -> dict:
    """Do it in a child; gives what it returned."""
    reader, writer = os.pipe()
    refused = attempt(lambda: os.write(writer, json.dumps(action()).encode()) and None, 300)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    assert refused == ""
    return json.loads(text)


def make(*rates: float) -> NodeNetwork:
    gain_rights()
    return NodeNetwork([Link(f"node{index}", rate) for index, rate in enumerate(rates)])


def send(network: NodeNetwork, sender: str, receiver: str, num_bytes: int) -> None:
    first, second = network.nodes[sender], network.nodes[receiver]
    with second.inside(network.hub):
        listener = socket.create_server((second.address, 0))
    with first.inside(network.hub):
        out = socket.create_connection(listener.getsockname())
    into, _ = listener.accept()
    left = num_bytes
    while left:
        left -= out.send(bytes(min(left, 1 << 16)))
        into.recv(1 << 20)
    out.close()
    while into.recv(1 << 20):
        pass


def test_nodes_reach_each_other_and_nothing_else():
    def look() -> dict:
        network = make(1e9, 1e9)
        send(network, "node0", "node1", 10)
        with network.nodes["node0"].inside(network.hub):
            names = sorted(name for _, name in socket.if_nameindex())
        return {"names": names}

    assert in_a_child(look)["names"] == [INTERFACE, "lo"]
    assert not any(name.startswith(("port", "bridge")) for _, name in socket.if_nameindex())


def test_what_a_link_carried_is_counted_at_both_ends_to_the_packet():
    num_bytes = 3_000_000

    def look() -> dict:
        network = make(1e9, 1e9)
        at_bridge = Queues()
        send(network, "node0", "node1", num_bytes)
        node0, node1 = network.nodes["node0"], network.nodes["node1"]
        with node0.inside(network.hub):
            sent = Queues().passed(node0.interface)
        received = at_bridge.passed(node1.port)
        return {"sent": vars(sent), "received": vars(received)}

    for each in in_a_child(look).values():
        payload = each["num_bytes"] - HEADER_BYTES * each["num_packets"]
        assert payload == pytest.approx(num_bytes, rel=1e-3)
        assert each["num_packets"] >= num_bytes / 1448  # true packets, no super-packets


@pytest.mark.parametrize(
    ("slower", "lump_bytes"), [(1e6, 1 << 12), (100e6, 31_250), (500e6, 125_000), (8e9, 500_000)]
)
def test_nodes_hand_on_lumps_that_the_slowest_link_lets_pass_uncut(slower, lump_bytes):
    def look() -> dict:
        network = make(10e9, slower)
        node = network.nodes["node0"]
        with node.inside(network.hub), IPRoute() as route:
            (found,) = route.get_links(node.interface)
        return {"lump": found.get_attr("IFLA_GSO_MAX_SIZE")}

    # What a kernel before 6.3 does not make is left at what it does.
    assert in_a_child(look)["lump"] in {lump_bytes, min(lump_bytes, LEGACY_LUMP_BYTES)}


def test_a_link_is_held_to_its_rate_and_its_neighbour_to_its_own():
    def look() -> dict:
        network = make(20e6, 100e6)
        achieved = measure(network)
        return {name: vars(each) for name, each in achieved.items()}

    rates = in_a_child(look)
    for name, asked in (("node0", 20e6), ("node1", 100e6)):
        assert rates[name]["sent_bits_per_s"] < 1.2 * asked
        assert rates[name]["received_bits_per_s"] < 1.2 * asked
    assert rates["node1"]["sent_bits_per_s"] > 2 * rates["node0"]["sent_bits_per_s"]


def test_no_node_holds_back_what_its_link_could_carry():
    """Whatever this machine prefers: what a sender thinks of its link is not what is measured."""

    def look() -> dict:
        network = make(1e9)
        with network.nodes["node0"].inside(network.hub), socket.socket() as made:
            name = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        return {"name": name.rstrip(b"\0").decode()}

    assert in_a_child(look)["name"] in {"cubic", "reno"}
