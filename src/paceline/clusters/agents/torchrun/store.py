"""torchrun's store, as a process without threads of its own uses it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import select
import subprocess
from collections.abc import Mapping
from typing import Any, Final, Self, final

from paceline.clusters.agents.torchrun.place import Place
from paceline.errors import RunError
from paceline.system.interpreter import own_command

# How much longer than asked for an answer may take: torch is imported for the first one.
_GRACE_S: Final = 60.0
_LEAVING_S: Final = 5.0


@final
class Store:
    """Keys and values that all nodes see, and anybody else. Owned by one thread."""

    def __init__(self, place: Place, patience_s: float) -> None:
        """Start to connect; does not wait."""
        self._label = f"torchrun's store at {place.store_host} port {place.store_port}"
        asked = json.dumps({**dataclasses.asdict(place), "timeout_s": patience_s})
        command = own_command("paceline.clusters.agents.torchrun.store_process", asked)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._patience_s = patience_s
        self._is_connected = False

    def put(self, key: str, value: bytes) -> None:
        self._ask("put", key, value=base64.b64encode(value).decode())

    def drop(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._ask("drop", key)

    def beat(self, key: str) -> None:
        """Count a key up from now on, for as long as this process is there."""
        self._ask("pulse", key)

    def look(self, key: str) -> bytes | None:
        """Give what is there now."""
        return self.wait(key, 0.0)

    def wait(self, key: str, timeout_s: float | None, pulse: str | None = None) -> bytes | None:
        """Wait for a key; None: it did not come in time.

        `pulse` is a key that somebody counts up. Raises `RunError` when that stops.
        """
        answer = self._ask("wait", key, timeout_s=timeout_s, pulse=pulse)
        if answer.get("gone"):
            raise RunError("the driver is gone: nothing was heard of it for 10 s")
        value = answer["value"]
        return None if value is None else base64.b64decode(value)

    def close(self) -> None:
        """End the process that speaks with it. Idempotent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_LEAVING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, verb: str, key: str, **more: Any) -> Mapping[str, Any]:
        if not self._is_connected:
            self._hear(self._patience_s)
            self._is_connected = True
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and has said why
            self._process.stdin.write(
                json.dumps({"verb": verb, "key": key, **more}).encode() + b"\n"
            )
            self._process.stdin.flush()
        return self._hear(more.get("timeout_s", 0.0))

    def _hear(self, timeout_s: float | None) -> Mapping[str, Any]:
        """Read an answer; one that is waited for without end comes when the pulse stops."""
        stdout = self._process.stdout
        assert stdout is not None
        limit_s = None if timeout_s is None else timeout_s + _GRACE_S
        is_there = bool(select.select([stdout], [], [], limit_s)[0])
        line = stdout.readline() if is_there else b""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "no answer"}
        if "error" in answer:
            raise RunError(f"{self._label}: {answer['error']}")
        return answer
