"""What the driver says to monitors only, and what only they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from paceline.comm.words import Phase, Word
from paceline.outcome.rows import NodeSample

# --- the driver to a monitor


@final
@dataclass(frozen=True)
class Observe(Word):
    """The processes of its node's seats."""

    seats: dict[str, int]


@final
@dataclass(frozen=True, kw_only=True)
class Enter(Word):
    """What the workers do from this moment on."""

    phase: Phase
    moment_s: float
    start_s: float | None = None
    """When training began, with the word that it did."""


# --- a monitor to the driver


@final
@dataclass(frozen=True)
class Sampled(Word):
    """A monitor's last row; may be lost."""

    sample: NodeSample


@final
@dataclass(frozen=True)
class Noted(Word):
    """A monitor has noted what was carried before a phase."""

    phase: Phase
