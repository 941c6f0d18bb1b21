"""Joining by hand: call the driver, again and again until it is there, and be its agent."""

from __future__ import annotations

import sys
import time
from typing import Final

from paceline.clusters.agents.agent import serve
from paceline.clusters.agents.manual.meeting import invitation_from, numeric, who_at
from paceline.clusters.agents.ssh import address_towards
from paceline.comm.dialing import NotTrusted, TurnedAway
from paceline.comm.line import LineClosed
from paceline.errors import RunError
from paceline.system.waiting import Deadline

_AGAIN_S: Final = 0.5
# A driver may need this host in a later run only; who waits for longer wants to know why.
_SILENT_S: Final = 5.0


def serve_by_hand(secret: str, host: str, port: int, name: str | None, wait_s: float) -> None:
    """Serve the driver at an address, once it is there; `name` is what its list calls this host.

    Raises `RunError` that says why it cannot be served.
    """
    deadline, silent = Deadline(wait_s), Deadline(_SILENT_S)
    where = f"the driver at {host} port {port}"
    _tell(f"waiting for {where}")
    while True:
        try:
            address = numeric(name) if name else address_towards(host)
            serve(invitation_from(secret, host, port, address, who_at(address)))
        except NotTrusted as error:
            reason = "its secret is not this machine's, or it is somebody else"
            raise RunError(f"{where} is not trusted: {reason}") from error
        except TurnedAway as error:
            reason = f"{where} does not wait for {address}, or that one has joined: {_AS}"
            if not deadline.left_s:
                raise RunError(f"not let in within {wait_s:g} s: {reason}") from error
            if not silent.left_s:
                _tell(f"{reason}; trying again for {deadline.left_s:.0f} s")
                silent = Deadline(None)  # it was said
            time.sleep(_AGAIN_S)
        except (LineClosed, OSError) as error:
            if not deadline.left_s:
                raise RunError(f"no answer within {wait_s:g} s: {error}") from error
            time.sleep(_AGAIN_S)
        else:
            _tell("the run is over")
            return


_AS: Final = "is it in [cluster.hosts]? --as HOST says what the list calls this machine"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - for whoever has typed the command
