"""What all clusters of real machines are asked alike."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from paceline.clusters.base import Cluster
from paceline.description import Positive


class Remote(Cluster, ABC):
    """Other machines, each of which calls the driver."""

    is_elsewhere: ClassVar[bool] = True
    can_restart: ClassVar[bool] = False

    address: str | None = None
    """Which address of the driver nodes are to call; unless given, the one that leads there."""
    interface: str | None = None
    """Which network interface of the nodes to use, such as `eth1`; unless given, on each the one
    that leads to the driver."""
    encrypt: bool = True
    """Whether messages between nodes are encrypted."""
    trusted_network: bool = False
    """Whether strategies may run whose connections between nodes cannot be encrypted: `ddp`."""
    join_s: Positive = 60.0
    """How long a node has to come."""

    @property
    def encrypts(self) -> bool:
        return self.encrypt

    @property
    def trusts_network(self) -> bool:
        return self.trusted_network
