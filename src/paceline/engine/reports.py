"""Reports of seats that cannot reach each other, and who of them the run goes on without.

A link that is cut is seen from both of its ends, and each end takes the other for lost. Every
report names two seats, one of which is cut off. So the one that explains the most reports, as who
reports or who is reported, is given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, final

from paceline.seats import parsed

# How long others have to say whom they lost, after the first who did: as far apart as two
# heartbeats are.
_SETTLE_S: Final = 1.0


@final
class Reports:
    """Collects who cannot reach whom."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._first_s: float | None = None
        self._pairs: dict[frozenset[str], tuple[str, str]] = {}

    def add(self, reporter: str, seat: str, reason: str) -> None:
        """A seat says that it cannot reach another."""
        if self._first_s is None:
            self._first_s = self._now()
        self._pairs[frozenset((reporter, seat))] = (seat, reason)

    def forget(self, name: str) -> None:
        """A seat is known to be gone, which explains every report about it and by it."""
        self._pairs = {pair: said for pair, said in self._pairs.items() if name not in pair}
        if not self._pairs:
            self._first_s = None

    def settled(self, struck: Collection[str] = ()) -> tuple[str, str] | None:
        """Name the seat to give up, with the reason, once all have had time to report.

        Who was struck by a fault, and is not known to be gone yet, explains what is said of it.
        """
        if self._first_s is None or self._now() - self._first_s < _SETTLE_S:
            return None
        counts = Counter(name for pair in self._pairs for name in pair)
        name = max(counts, key=lambda each: (each in struck, counts[each], *_rank(each)))
        reasons = [reason for seat, reason in self._pairs.values() if seat == name]
        return name, reasons[0] if reasons else "it could not reach the others"


def _rank(name: str) -> tuple[bool, int]:
    """Of several that explain as much: a worker rather than a server, and the last of them."""
    role, index = parsed(name)
    return role == "worker", index
