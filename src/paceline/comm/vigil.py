"""Watching over the correspondents of a channel while their seat waits for them in another way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, final

from paceline.comm.base import Channel
from paceline.errors import PeerLost

_LOOK_S: Final = 0.25


@final
class Vigil:
    """Looks whether they are there, in a thread; until it is closed nobody else uses the channel.

    When one is gone, `hang_up` is called in that thread, to end whatever the seat waits for.
    """

    def __init__(self, channel: Channel, hang_up: Callable[[], None]) -> None:
        self.lost: PeerLost | None = None
        self._channel = channel
        self._hang_up = hang_up
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="vigil", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self.lost is None and not self._over.wait(_LOOK_S):
            self.lost = self._channel.lost()
        if self.lost is not None:
            self._hang_up()

    def close(self) -> None:
        """Look no more. Idempotent."""
        self._over.set()
        self._thread.join()
