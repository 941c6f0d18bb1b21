"""A process of our own that speaks with a library for us, in lines of JSON both ways."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import subprocess
from collections.abc import Mapping
from typing import IO, Any, final

from paceline.system.interpreter import own_command
from paceline.system.waiting import end_of

_MOST_AT_ONCE = 1 << 16


@final
class JsonProcess:
    """Owned by one thread. The process ends when its standard input does."""

    def __init__(self, module: str, *arguments: str, stderr: IO[bytes] | None = None) -> None:
        """Start it; what it prints on standard error goes to ours, or to a file."""
        self._process = subprocess.Popen(
            own_command(module, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self._rest = b""

    def say(self, word: Mapping[str, Any]) -> None:
        """Send a word; one that has ended does not hear it, and has said why."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(word).encode() + b"\n")
            self._process.stdin.flush()

    def hear(self, timeout_s: float) -> dict[str, Any] | None:
        """Give its next word; None: none came in time. Raises `EOFError` when no more will come."""
        stdout = self._process.stdout
        assert stdout is not None
        while b"\n" not in self._rest:
            if not _is_readable(stdout.fileno(), timeout_s):
                return None
            data = os.read(stdout.fileno(), _MOST_AT_ONCE)
            if not data:
                raise EOFError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        word: dict[str, Any] = json.loads(line)
        return word

    def exit_code(self) -> int | None:
        """Give with what it has ended; None while it is there."""
        return self._process.poll()

    def close(self, patience_s: float) -> None:
        """End it. Idempotent."""
        assert self._process.stdout is not None
        end_of(self._process, patience_s)
        self._process.stdout.close()


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    poller = select.poll()  # select() itself cannot look at descriptors beyond 1023
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(math.ceil(timeout_s * 1000)))
