"""The process that speaks with torchrun's store: torch starts threads for it, and agents fork.

Reads one request in JSON per line, and answers each with one line; before that, once per second,
with one that says how long the store has not answered. It knows no secret.
"""

from __future__ import annotations

import json
import select
import sys
import threading
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
_TELL_S: Final = 1.0
_saying: Final = threading.RLock()


@final
class Waits:
    """Says once per second how long the store has not answered, while somebody waits for it.

    In a thread that never touches the store: a call to one whose host is gone may never return.
    """

    def __init__(self) -> None:
        self._since_s: float | None = None
        threading.Thread(target=self._tell, name="waits", daemon=True).start()

    def renew(self) -> None:
        """The store is asked for something, or has answered, though that is not the end of it."""
        self._since_s = time.monotonic()

    def end(self) -> None:
        """The store is not waited for any more; nothing is said from now on."""
        with _saying:
            self._since_s = None

    def _tell(self) -> None:
        while True:
            time.sleep(_TELL_S)
            with _saying:
                if self._since_s is not None:
                    _say({"waiting_s": time.monotonic() - self._since_s})


@final
class _Session:
    def __init__(self, store: TCPStore) -> None:
        self._store = store
        self._pulse: str | None = None
        self._beaten_s = 0.0
        self.waits = Waits()

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
        elif verb == "which":
            return {"found": self._which(asked["keys"]) if self._store.check([key]) else {}}
        return {}

    def _which(self, keys: list[str]) -> dict[str, str]:
        there = [key for key in keys if self._store.check([key])]
        return {key: self._store.get(key).decode(errors="replace") for key in there}

    def _wait(self, key: str, timeout_s: float | None, pulse: str | None) -> dict[str, Any]:
        """Wait for a key; without a time to wait, for as long as the driver's pulse is felt."""
        began_s = felt_s = time.monotonic()
        felt: bytes | None = None
        while not self._store.check([key]):
            self.waits.renew()
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
            session.waits.renew()
            answer = session.answer(json.loads(line))
            session.waits.end()
            _say(answer)
        session.waits.renew()
        session.beat()
        session.waits.end()


def _say(answer: dict[str, Any]) -> None:
    with _saying:
        print(json.dumps(answer), flush=True)  # noqa: T201 - whoever started it reads this


if __name__ == "__main__":
    main()
