"""Workers that come while others train: who is on the way in, and how long gates wait for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, final

# How long a gate waits for a worker that has just come, and does not rest.
_HOLD_S: Final = 20.0


@final
class Newcomers:
    """Each worker that came later, until it has rested with the others once."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ready: list[str] = []
        self.entering: set[str] = set()
        """Those that are let in, and do not take part yet."""
        self.unrested: set[str] = set()
        """Those that take part, and have not rested with the others yet."""
        self._held_since_s: float | None = None
        """Since when a gate waits for them."""

    def come(self, name: str) -> None:
        """One has joined, and waits to be let in."""
        self._ready.append(name)

    def let_in(self) -> list[str]:
        """Those that waited are on their way in."""
        ready, self._ready = self._ready, []
        self.entering.update(ready)
        return ready

    def entered(self, name: str) -> None:
        """One takes part from now on."""
        self.entering.remove(name)
        self.unrested.add(name)

    def forget(self, name: str) -> None:
        """One is gone, wherever it was."""
        self.entering.discard(name)
        self.unrested.discard(name)
        if name in self._ready:
            self._ready.remove(name)

    def holds(self, resting: Collection[str]) -> bool:
        """Whether a gate waits for one of them, for a while, as these rest."""
        if not self.entering | (self.unrested - set(resting)):
            return False
        if self._held_since_s is None:
            self._held_since_s = self._now()
        return not self.is_overdue

    @property
    def is_overdue(self) -> bool:
        """Whether a gate has waited for them long enough."""
        return self._held_since_s is not None and self._now() - self._held_since_s > _HOLD_S

    def release(self) -> None:
        """The gate waits no longer."""
        self._held_since_s = None
