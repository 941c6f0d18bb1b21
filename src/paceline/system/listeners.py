"""Where this process listens for others."""

from __future__ import annotations

import psutil

from paceline.system import linux


def own_listeners() -> list[str]:
    """Give the addresses and ports of TCP at which it does, whoever opened them."""
    own = psutil.Process(linux.own_pid())  # psutil by itself would take another's in a namespace
    sockets = own.net_connections("tcp")
    found = {each.laddr for each in sockets if each.status == psutil.CONN_LISTEN}
    return [_written(each.ip, each.port) for each in sorted(found)]


def _written(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
