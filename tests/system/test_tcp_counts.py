"""Bytes by peer, as the kernel counts them."""

import socket
import time

from paceline.system.tcp_counts import TcpCounts


def sent_to(counts, address):
    """What arrived is known when the other end has said so."""
    deadline = time.monotonic() + 5
    while True:
        counts.look()
        found = counts.by_peer()[address]
        if found >= 5000 or time.monotonic() > deadline:
            return found


def test_only_what_was_sent_since_the_start_is_counted():
    with socket.create_server(("127.0.0.9", 0)) as server:
        with socket.create_connection(server.getsockname()) as here, server.accept()[0] as there:
            counts = TcpCounts()
            here.sendall(bytes(3000))
            there.recv(3000, socket.MSG_WAITALL)
            counts.begin()
            here.sendall(bytes(5000))
            there.recv(5000, socket.MSG_WAITALL)
            assert 5000 <= sent_to(counts, "127.0.0.9") <= 8001
        counts.look()
        assert counts.by_peer()["127.0.0.9"] >= 5000, "of a connection that is closed by now"
