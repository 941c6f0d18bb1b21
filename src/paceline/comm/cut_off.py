"""Noticing that the other host of a TCP connection is gone without a word.

A process that is killed is no trouble: its kernel says so. A host that loses its power or its
network says nothing. The kernel asks an idle connection's other host every few seconds
(keepalive), but not while bytes are on their way: those it repeats for a quarter of an hour. Its
option against that, TCP_USER_TIMEOUT, would also end the line to a process that does not read for
a while, as one that is stopped. So we look ourselves at how long nothing was acknowledged.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

# Silent for two seconds: ask, three times, a second apart.
_IDLE_S: Final = 2
_BETWEEN_S: Final = 1
_NUM_ASKED: Final = 3
UNHEARD_MS: Final = 4000
"""How long bytes may be on their way, and repeated, with nothing heard of the other kernel."""
# Where Linux keeps in `struct tcp_info`: timeouts in a row, segments that were not acknowledged,
# milliseconds since anything was, and how much the other takes now.
_REPEATED_AT: Final = 2
_UNACKNOWLEDGED: Final = struct.Struct("=24xI28xI")
_WINDOW: Final = struct.Struct("=228xI")


def ask_when_idle(end: socket.socket) -> None:
    """Have the kernel ask the other host whether it is there, whenever nothing was said."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _NUM_ASKED)


def is_cut_off(end: socket.socket) -> bool:
    """Whether bytes were repeated and not acknowledged for too long. Does not wait."""
    told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    unacknowledged, unheard_ms = _UNACKNOWLEDGED.unpack_from(told)
    if not (unacknowledged and told[_REPEATED_AT] and unheard_ms >= UNHEARD_MS):
        return False
    # Who takes nothing at the moment is asked more and more seldom, and so is heard seldom.
    return len(told) < _WINDOW.size or bool(_WINDOW.unpack_from(told)[0])
