"""Torch's own store, in which the processes of a group find each other."""

from __future__ import annotations

import socket

import torch
from torch._C._distributed_c10d import TCPStore

from paceline.strategies.place import Place


def torch_store(place: Place) -> TCPStore:
    """Make it at the first worker's address and at no other; it listens before its port is said."""
    if place.rank:
        host, _, port = bytes(place.channel.receive().memory).decode().rpartition(" ")
        return TCPStore(host, int(port), is_master=False)
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    listener = socket.create_server((place.address, 0), family=family)
    port = listener.getsockname()[1]
    store = TCPStore(
        place.address,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    where = torch.tensor(list(f"{place.address} {port}".encode()), dtype=torch.uint8)
    for name in place.roster.workers[1:]:
        place.channel.send(name, where)
    return store
