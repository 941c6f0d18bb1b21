"""What Ray starts on each node: an actor that starts our agent there, and ends with it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from typing import IO, Any, Final

from paceline.clusters.agents.ray.sealing import Recipient
from paceline.clusters.agents.versions import own_versions
from paceline.system import linux
from paceline.system.interpreter import own_command

_LEAVING_S: Final = 3.0
_MOST_SHOWN: Final = 1000


class NodeActor:
    """One per node. Ray calls it in its process's main thread, one method at a time."""

    def __init__(self, index: int) -> None:
        """`index` says which of the nodes it is."""
        self._index = index
        self._recipient = Recipient()
        self._agent: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as we do

    def introduce(self) -> dict[str, Any]:
        """Say where it is, and with which key to seal what only it may read."""
        import ray

        return {
            "id": ray.get_runtime_context().get_node_id(),
            "host": socket.gethostname(),
            "address": ray.util.get_node_ip_address(),
            "key": self._recipient.public,
            "versions": own_versions(),
        }

    def serve(self, sealed: str) -> None:
        """Start the agent, with an invitation that only this actor can read; does not wait.

        The kernel ends the agent with this process. What Ray says to its own processes, a token
        above all, is not for a user's code.
        """
        invitation = self._recipient.opened(sealed, self._index)
        self._agent = subprocess.Popen(
            own_command("paceline", "join", "-"),
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            env={name: value for name, value in os.environ.items() if _is_for_all(name)},
            preexec_fn=_begin,  # noqa: PLW1509
        )
        assert self._agent.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            self._agent.stdin.write(invitation.encode() + b"\n")
            self._agent.stdin.close()

    def failure(self) -> str | None:
        """Say why the agent has ended, if it has; does not wait."""
        if self._agent is None or (code := self._agent.poll()) is None:
            return None
        self._said.seek(0)
        told = self._said.read()[-_MOST_SHOWN:].decode(errors="replace").strip()
        return f"its agent ended with exit code {code}" + (f"\n{told}" if told else "")

    def end(self) -> None:
        """Have the agent end, which it does by itself once the driver has hung up."""
        if self._agent is None:
            return
        try:
            self._agent.wait(_LEAVING_S)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()


def _is_for_all(name: str) -> bool:
    return not name.startswith("RAY_") and name not in {"OMP_NUM_THREADS", "PYTHONBREAKPOINT"}


def _begin() -> None:
    """Before the agent starts: it ends with its parent, and has the priority of other programs.

    Ray gives its workers a low one, so that its own daemons answer. Only root may raise it again.
    """
    linux.die_with_parent()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
