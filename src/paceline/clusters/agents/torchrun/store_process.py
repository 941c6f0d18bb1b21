"""The process that speaks with torchrun's store: torch starts threads for it, and agents fork.

Reads one request in JSON per line, and answers each with one line. It knows no secret.
"""

from __future__ import annotations

import json
import select
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, final

from paceline.system import linux

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

# How often it is looked for a key that is waited for.
_LOOK_S: Final = 0.05
# How often the driver shows that it is there, and how long it may not before it is gone.
_BEAT_S: Final = 1.0
_GONE_S: Final = 10.0


@final
class _Session:
    def __init__(self, store: TCPStore) -> None:
        self._store = store
        self._pulse: str | None = None
        self._beaten_s = 0.0

    def beat(self) -> None:
        """Show that the driver is still there, where it is the driver that this process serves."""
        if self._pulse is not None and time.monotonic() - self._beaten_s >= _BEAT_S:
            self._store.add(self._pulse, 1)
            self._beaten_s = time.monotonic()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        key, verb = asked["key"], asked["verb"]
        if verb == "put":
            self._store.set(key, asked["value"])
        elif verb == "drop":
            self._store.delete_key(key)
        elif verb == "pulse":
            self._pulse = key
            self.beat()
        elif verb == "wait":
            return self._wait(key, asked["timeout_s"], asked["pulse"])
        return {}

    def _wait(self, key: str, timeout_s: float | None, pulse: str | None) -> dict[str, Any]:
        """Wait for a key; without a time to wait, for as long as the driver's pulse is felt."""
        began_s = felt_s = time.monotonic()
        felt: bytes | None = None
        while not self._store.check([key]):
            self.beat()
            now_s = time.monotonic()
            if timeout_s is not None and now_s - began_s >= timeout_s:
                return {"value": None}
            if pulse is not None and (seen := self._seen(pulse)) != felt:
                felt, felt_s = seen, now_s
            if pulse is not None and now_s - felt_s > _GONE_S:
                return {"gone": True}
            time.sleep(_LOOK_S)
        return {"value": self._store.get(key).decode(errors="replace")}

    def _seen(self, key: str) -> bytes | None:
        return self._store.get(key) if self._store.check([key]) else None


def main() -> None:
    linux.die_with_parent()
    linux.name_process("pace-store")
    try:
        session = _Session(_connected(json.loads(sys.argv[1])))
        _say({})
        _serve(session)
    except Exception as error:  # noqa: BLE001 - torch has errors of its own
        _say({"error": str(error).partition("\n")[0] or type(error).__name__})


def _connected(place: dict[str, Any]) -> TCPStore:
    from torch._C._distributed_c10d import TCPStore

    return TCPStore(
        place["store_host"],
        place["store_port"],
        is_master=place["hosts_store"],
        timeout=timedelta(seconds=place["timeout_s"]),
        wait_for_workers=False,
        multi_tenant=place["hosts_store"],
    )


def _serve(session: _Session) -> None:
    """Answer one request after the other until nobody asks any more."""
    while True:
        if select.select([sys.stdin], [], [], _BEAT_S)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            _say(session.answer(json.loads(line)))
        session.beat()


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201 - whoever started it reads this


if __name__ == "__main__":
    main()
