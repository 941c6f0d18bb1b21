"""What bytes pass through, one after the other: links, uplinks, and processors too."""

from __future__ import annotations

from typing import final


@final
class Pipe:
    """Carries so many bytes per second, in the order they come; a processor carries seconds."""

    __slots__ = ("burst_s", "busy_s", "free_s", "label", "per_s")

    def __init__(self, label: str, per_s: float, burst_s: float = 0.0) -> None:
        self.label = label
        self.per_s = per_s
        self.burst_s = burst_s
        self.free_s = 0.0
        self.busy_s = 0.0

    def take(self, at_s: float, amount: float) -> float:
        """Have something pass that comes at a moment; gives when all of it has."""
        took_s = amount / self.per_s
        # After a pause a burst passes at once: as if it had begun that much earlier.
        begins_s = max(at_s - self.burst_s, self.free_s)
        self.free_s = begins_s + took_s
        self.busy_s += took_s
        return max(at_s, self.free_s)
