"""Every number a verdict depends on, in one place.

They were fixed on one half of the cases of `benchmarks/verdicts.py` and judged on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Shares are parts of one."""

    dominant: float = 0.5
    """A part of the slowest worker's step that takes less than this does not limit it."""
    late: float = 0.2
    """Others that wait for less than this part of a step are not limited by one worker."""
    excess: float = 0.5
    """How much of the others' wait a worker's own loading and computing must explain."""
    slower: float = 1.5
    """Where no worker waits: how many times the others' time a straggler takes for a step."""
    link_full: float = 0.6
    """A link is what an exchange waits for if it is in use for this part of the exchange."""
    server_busy: float = 0.6
    """The same of a server's thread: running, or ready to run."""
    host_full: float = 0.9
    """A machine whose cores are busier than this is full."""
    starved: float = 0.25
    """On a full machine: seats that wait for a core for this part of their time are limited
    by it."""
    other_programs: float = 0.25
    """On a full machine: programs that are no part of the run and use this part of its cores limit
    it."""
    least_steps: int = 3
    """Fewer steps per worker give no verdict."""


THRESHOLDS: Final = Thresholds()
