"""What nodes are asked for by commands that are no run, and what they answer.

What is asked is in a seat's orders, spelled as any word; the answers are said on its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from paceline.comm.words import Word
from paceline.outcome.rows import CommandSample

# --- the driver to a seat, in its orders


@final
@dataclass(frozen=True, kw_only=True)
class WatchCommand(Word):
    """Run a command, and tell what it uses."""

    command: list[str]
    interval_s: float
    """From one row to the next."""


@final
@dataclass(frozen=True, kw_only=True)
class MeasureRates(Word):
    """Step through a workload, and tell how long each layer takes."""

    spec: str
    """In TOML."""
    num_steps: int
    device: str
    """How the file of rates calls the node."""
    source: str
    """How the file says that it was measured."""


# --- a seat to the driver


@final
@dataclass(frozen=True)
class CommandUsed(Word):
    """What the command used since the row before."""

    sample: CommandSample


@final
@dataclass(frozen=True)
class CommandEnded(Word):
    """The command is over."""

    exit_code: int


@final
@dataclass(frozen=True)
class CommandMissing(Word):
    """The command could not be started."""

    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class StepsMeasured(Word):
    """So many steps of a workload are measured."""

    num_done: int
    num_steps: int


@final
@dataclass(frozen=True, kw_only=True)
class RatesMeasured(Word):
    """All steps are measured."""

    rates: str
    """A file of rates, in TOML."""
    note: str
    """What the user should know of them."""


@final
@dataclass(frozen=True, kw_only=True)
class ThreadsTimed(Word):
    """How long a step takes with one thread, and with all that a worker may have."""

    one_s: float
    all_s: float


NodeAnswer = CommandUsed | CommandEnded | CommandMissing | StepsMeasured | RatesMeasured
"""What is answered by each node of a cluster."""
