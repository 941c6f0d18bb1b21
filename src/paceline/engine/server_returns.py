"""Whether a run goes on when a server is lost: all wait until it is started again."""

from __future__ import annotations

from paceline.spec import RunSpec


def servers_return(spec: RunSpec) -> bool:
    """Say whether a server that is lost is started again, from its last snapshot."""
    can_start = (
        spec.goes_on and spec.may_start_again and spec.cluster.cannot_strike("restart") is None
    )
    return can_start and spec.strategy.keeps_servers_away is None


def server_back_s(spec: RunSpec) -> float:
    """How long a worker that has just been started waits for a server to be back."""
    return spec.stuck_s * spec.dilation
