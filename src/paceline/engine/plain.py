"""What of a run is not encrypted, said in its result."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.clusters.base import Cluster
from paceline.strategies.base import Strategy


def plain_connections(strategy: Strategy, cluster: Cluster) -> Iterator[str]:
    """Say what anyone on the network can read, of machines or where the rest is encrypted."""
    if strategy.connects_itself and (cluster.encrypts or cluster.is_elsewhere):
        trusted = ": cluster.trusted_network=true" if cluster.is_elsewhere else ""
        yield f"{strategy.name} opens its own connections, which are not encrypted{trusted}"
    elif cluster.is_elsewhere and not cluster.encrypts:
        yield "messages between nodes are not encrypted: cluster.encrypt=false"
