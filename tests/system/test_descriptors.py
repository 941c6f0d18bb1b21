"""Looking at what is open opens nothing."""

import os
import socket

import pytest

from paceline.system.descriptors import descriptors, held_socket
from paceline.system.tcp_counts import TcpCounts


def test_a_socket_is_held_whatever_becomes_of_the_first():
    here, there = socket.socketpair()
    with there, held_socket(here.fileno()) as held:
        here.close()
        held.sendall(b"still")
        assert there.recv(5) == b"still"


def test_what_is_no_socket_leaves_nothing_open(tmp_path):
    with (tmp_path / "a file").open("w") as file:
        before = set(descriptors())
        with pytest.raises(OSError, match="socket"):
            held_socket(file.fileno())
        assert set(descriptors()) == before


def test_nor_does_counting_bytes_by_peer():
    reader, writer = os.pipe()
    counts, before = TcpCounts(), set(descriptors())
    counts.begin()
    counts.look()
    assert set(descriptors()) == before
    os.close(reader)
    os.close(writer)
