"""What the driver knows of Ray: a process that speaks with it, and the nodes that it has found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final, final

from paceline.clusters.agents.json_process import JsonProcess
from paceline.errors import RunError
from paceline.reading import schema
from paceline.system.waiting import Deadline

# How much longer than its own patience it may take: Ray is imported, and starts a process per node.
_GRACE_S: Final = 90.0
# Ray itself tries to connect for ever.
_CONNECTING_S: Final = 30.0
_LEAVING_S: Final = 10.0
_MOST_SHOWN: Final = 600
_TICK_S: Final = 0.2


@final
@dataclass(frozen=True, kw_only=True)
class PlacedNode:
    """A node that Ray has found, and the actor that is there."""

    index: int
    id: str
    """What Ray calls the node."""
    host: str
    address: str
    key: str
    """With which to seal what only the actor may read."""
    cpus: float
    """How many Ray has set aside."""
    versions: dict[str, str] = field(default_factory=dict)


@final
class Broker:
    """Owned by the driver's thread. Whatever it has of Ray is given back when it is closed."""

    def __init__(
        self,
        address: str,
        *,
        num_nodes: int | None = None,
        cpus: float | None = None,
        resources: Mapping[str, float] | None = None,
        others: Sequence[str] = (),
        patience_s: float,
    ) -> None:
        """Start to ask for nodes, but for `others`; does not wait.

        Without a number it only asks what there is.
        """
        self._label = f"Ray at {address}"
        self._patience_s = patience_s
        self._lost: dict[int, str] = {}
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as we do
        self._process = JsonProcess(
            "paceline.clusters.agents.ray.broker_process", stderr=self._said
        )
        self._process.say(
            {
                "address": address,
                "nodes": num_nodes,
                "cpus": cpus,
                "resources": dict(resources or {}),
                "others": [*others],
                "patience_s": patience_s,
            }
        )

    def placed(self, tell: Callable[[str], None]) -> list[PlacedNode]:
        """Wait until Ray has found all nodes; raises `RunError` with what is free and was asked."""
        answer = self._answer("placed", tell)
        return [schema.read(PlacedNode, each, "placed", strict=True) for each in answer]

    def offers(self) -> list[dict[str, Any]]:
        """Wait for what each node has; raises `RunError`."""
        found: list[dict[str, Any]] = self._answer("offers", lambda _: None)
        return found

    def serve(self, index: int, sealed: str) -> None:
        """Have the agent of a node started; does not wait."""
        self._process.say({"index": index, "sealed": sealed})

    def failure(self, index: int) -> str | None:
        """Say why a node's agent cannot go on, if so; does not wait."""
        while self._lost.get(index) is None and (word := self._heard(0)) is not None:
            self._take(word)
        return self._lost.get(index) or self._own_failure()

    def close(self) -> None:
        """Give everything back. Idempotent."""
        self._process.close(_LEAVING_S)
        self._said.close()

    def _answer(self, kind: str, tell: Callable[[str], None]) -> Any:
        deadline = Deadline(_CONNECTING_S)
        while deadline.left_s:
            word = self._heard(_TICK_S)
            if word is None:
                self._raise_if_ended()
            elif kind in word:
                return word[kind]
            elif "connected" in word:
                deadline = Deadline(self._patience_s + _GRACE_S)
            elif "waiting" in word:
                tell(f"waiting for {self._label}: {word['waiting']}")
            else:
                raise RunError(f"{self._label}: {word.get('error', word)}")
        reason = f"it did not answer within {_CONNECTING_S:g} s: does `ray status` work here?"
        raise RunError(f"{self._label}: {reason}")

    def _heard(self, timeout_s: float) -> dict[str, Any] | None:
        """Give the next word; None: none came in time, or it has ended (see `_own_failure`)."""
        try:
            return self._process.hear(timeout_s)
        except EOFError:
            return None

    def _take(self, word: Mapping[str, Any]) -> None:
        if "lost" in word:
            self._lost[word["lost"]["index"]] = word["lost"]["reason"]

    def _raise_if_ended(self) -> None:
        if (why := self._own_failure()) is not None:
            raise RunError(f"{self._label}: {why}")

    def _own_failure(self) -> str | None:
        code = self._process.exit_code()
        if code is None:
            return None
        self._said.seek(0)
        told = self._said.read()[-_MOST_SHOWN:].decode(errors="replace").strip()
        return f"the connection to it was lost (exit code {code})" + (f"\n{told}" if told else "")
