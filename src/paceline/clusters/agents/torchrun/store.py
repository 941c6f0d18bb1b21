"""torchrun's store, as a process without threads of its own uses it."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self, final

from paceline.clusters.agents.json_process import JsonProcess
from paceline.clusters.agents.torchrun.place import RankPlace
from paceline.errors import RunError

# How long nothing at all may come: torch is imported before the first word.
_GRACE_S: Final = 60.0
# How long the store may not answer the process that speaks with it: it takes milliseconds.
_MOST_SILENT_S: Final = 5.0
# How often it is glanced at what may have come.
_GLANCE_S: Final = 1.0
_LEAVING_S: Final = 5.0


@final
class Store:
    """Keys and values that all nodes see, and anybody else. Owned by one thread."""

    def __init__(self, place: RankPlace, patience_s: float) -> None:
        """Start to connect; does not wait."""
        self._label = f"torchrun's store at {place.store_host} port {place.store_port}"
        asked = json.dumps({**dataclasses.asdict(place), "timeout_s": patience_s})
        self._process = JsonProcess("paceline.clusters.agents.torchrun.store_process", asked)
        self._patience_s = patience_s
        self._is_connected = False
        self._glanced_s = -math.inf
        self._is_glancing = False
        self._found: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self._ask("put", key, value=base64.b64encode(value).decode())

    def drop(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._ask("drop", key)

    def beat(self, key: str) -> None:
        """Count a key up from now on, for as long as this process is there."""
        self._ask("pulse", key)

    def glance(self, sign: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Give which of these keys were there when it was last looked, at most a second ago.

        Does not wait, however long the store does. `sign` is a key that is there when any is.
        To be called when something was put, or waited for, before.
        """
        assert self._is_connected
        while self._is_glancing and (answer := self._answer(0.0)) is not None:
            if "waiting_s" not in answer:
                self._note(answer)
        if not self._is_glancing and time.monotonic() - self._glanced_s >= _GLANCE_S:
            self._glanced_s, self._is_glancing = time.monotonic(), True
            self._process.say({"verb": "which", "key": sign, "keys": [*keys]})
        return self._found

    def _note(self, answer: Mapping[str, Any]) -> None:
        self._is_glancing = False
        self._found = {key: base64.b64decode(value) for key, value in answer["found"].items()}

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
        self._process.close(_LEAVING_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, verb: str, key: str, **more: Any) -> Mapping[str, Any]:
        if not self._is_connected:
            self._hear()
            self._is_connected = True
        if self._is_glancing:
            self._note(self._hear())
        self._process.say({"verb": verb, "key": key, **more})
        return self._hear()

    def _hear(self) -> Mapping[str, Any]:
        """Wait for an answer, for as long as the store itself answers whoever waits there."""
        while True:
            answer = self._answer(_GRACE_S)
            if answer is None:
                raise RunError(f"{self._label}: no answer")
            if "waiting_s" not in answer:
                return answer
            if answer["waiting_s"] > _MOST_SILENT_S:
                silent = f"it has not answered for {answer['waiting_s']:.0f} s"
                raise RunError(f"{self._label}: {silent}: its host is gone, or cut off")

    def _answer(self, timeout_s: float) -> dict[str, Any] | None:
        """Read a line, if one comes in time."""
        try:
            answer = self._process.hear(timeout_s)
        except EOFError:
            reason = "the process that speaks with it has ended"
            raise RunError(f"{self._label}: {reason}") from None
        if answer is not None and "error" in answer:
            raise RunError(f"{self._label}: {answer['error']}")
        return answer
