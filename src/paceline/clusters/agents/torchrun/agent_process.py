"""The agent of a node that torchrun started: it imports torch, and waits for its invitation.

Run as `python -m paceline.clusters.agents.torchrun.agent_process FD`: where it writes why it never
reached the driver.
"""

from __future__ import annotations

import os
import signal
import sys

from paceline.clusters.agents.agent import called, serve
from paceline.clusters.agents.nursery import Nursery
from paceline.comm.invitation import Invitation
from paceline.comm.line import LineClosed
from paceline.comm.tcp_line import TcpLine
from paceline.system import linux


def main() -> None:
    linux.die_with_parent()
    # torchrun stops whoever started this one, which ends it then.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    told = int(sys.argv[1])
    with Nursery(told) as nursery:
        line = _line(told)
        if line is not None:
            serve(line, nursery)


def _line(told: int) -> TcpLine | None:
    """Call as the invitation says; None: none came."""
    text = sys.stdin.readline()
    if not text:
        return None  # no run needs this node any more
    try:
        return called(Invitation.read(text))
    except LineClosed as error:
        os.write(told, str(error).encode())
        sys.exit(1)
    finally:
        os.close(told)


if __name__ == "__main__":
    main()
