"""All that the driver and its seats say to each other: who, with which fields.

A word is a frozen dataclass; `spelling.py` says how it travels. What only monitors hear and say
is in `monitor_words.py`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, final

from paceline.comm.keepsakes import Copy, KeptFile, StreamName
from paceline.comm.roster import Roster
from paceline.outcome.accounts import RefusedSteps, RowsHeld, ServerAccount, WorkerAccount
from paceline.outcome.rows import StepsRow
from paceline.reading.schema import AnyFloat
from paceline.training.shares import Share

Phase = Literal[
    "preparing",
    "starting",
    "training",
    "stopping",
    "keeping",
    "saving",
    "evaluating",
    "ending",
]


@dataclass(frozen=True)
class Word:
    """Base of all that is said on a line."""


# --- the driver to a seat


@final
@dataclass(frozen=True)
class Members(Word):
    """Who sits where, now that all are there, or whenever that changes."""

    roster: Roster


@final
@dataclass(frozen=True)
class Start(Word):
    """Everyone has joined: training begins, at one moment for all clocks."""

    start_s: float
    rest_at: int | None = None
    """At which progress every worker rests next."""
    is_late: bool = False
    """Whether the others train already."""
    num_done: int = 0
    """With which of its batches it begins, about."""
    shares: list[Share] = dataclasses.field(default_factory=list)
    """Whose batches it takes, where these are not its own alone."""


@final
@dataclass(frozen=True)
class TakeOver(Word):
    """To a worker that trains: from now on take these batches of one that is gone, too."""

    shares: list[Share]


@final
@dataclass(frozen=True)
class Settle(Word):
    """To every worker, when all rest, before one of them evaluates or saves."""

    is_looked_at: bool
    """Whether it is this one that will."""
    among: list[str] = dataclasses.field(default_factory=list)
    """Workers that evaluate together, each its share of the rows. All of them are looked at then,
    but first all are asked as if they were not: so all see the same."""


@final
@dataclass(frozen=True)
class Evaluate(Word):
    """To one of the workers that rest at a gate."""


@final
@dataclass(frozen=True)
class Save(Word):
    """To one of the workers when all have trained."""


@final
@dataclass(frozen=True, kw_only=True)
class Resume(Word):
    """The gate opens: clocks leave out so many seconds; or training ends here."""

    paused_s: float
    stop: bool
    rest_at: int | None = None
    """At which progress every worker rests next."""


@final
@dataclass(frozen=True)
class RestAt(Word):
    """To a worker that trains: rest at this progress next, or at once if you are past it."""

    progress: int


@final
@dataclass(frozen=True, kw_only=True)
class Keep(Word):
    """Copy your state, say that you have, and write the copy while you go on."""

    what: Copy
    is_first: bool = True
    """Whether it also keeps what is the same in all workers."""
    paused_s: float = 0.0
    """How many seconds clocks leave out first: those of the evaluation before it."""


@final
@dataclass(frozen=True, kw_only=True)
class Portion(Word):
    """Part of the state that a seat asked for, because it does not see the run's folder."""

    start: int
    data: str
    """In base64; empty at the end."""


@final
@dataclass(frozen=True)
class Stop(Word):
    """Train no further than the current step."""


@final
@dataclass(frozen=True)
class Finish(Word):
    """The run is over: leave."""


@final
@dataclass(frozen=True)
class Abort(Word):
    """The run cannot go on."""

    reason: str


# --- a seat to the driver


@final
@dataclass(frozen=True, kw_only=True)
class Here(Word):
    """The first word of every seat: it is there, and this is how others reach it."""

    pid: int
    address: str | None = None
    key: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Joined(Word):
    """It has built what it needs, and waits for the start."""

    state: dict[str, int] = dataclasses.field(default_factory=dict)
    """Checksums of the values that it starts from."""
    data: str | None = None
    """Where its rows come from."""
    rows: RowsHeld | None = None
    """What tells them from others, where each machine has its own."""
    has_buffers: bool = False
    batch: int | None = None
    """Rows per worker per step, where only the worker knows."""
    num_steps: int = 0
    """How many of its steps were made before, in a run that goes on from a checkpoint."""
    converted: str | None = None
    """What was done to parameters of an unusual type."""
    num_before: int = 0
    """After how many of its batches a worker begins, where those before were another group's."""
    listeners: list[str] = dataclasses.field(default_factory=list)
    """Where its process listens, for others of the run or by somebody's library."""


@final
@dataclass(frozen=True)
class Entered(Word):
    """A worker that was started while others trained takes part from now on."""

    num_before: int = 0
    """With which of its batches it begins."""


@final
@dataclass(frozen=True)
class TakenOver(Word):
    """A worker takes batches of one that is gone from now on."""

    num_shares: int
    """How many of the shares that it was told to take, in the order in which it was told."""
    num_taken: int
    """How many batches it has taken before."""


@final
@dataclass(frozen=True, kw_only=True)
class Parted(Word):
    """A server takes nothing more of a worker that is gone."""

    worker: str
    incarnation: int
    num_pushes: int
    """How many of its pushes count, of which something may be applied."""


@final
@dataclass(frozen=True)
class Restored(Word):
    """A server that was started again serves, and all workers have found it."""

    version: int
    """Of the parameters that it went back to."""
    num_lost: int
    """How many updates that workers had seen are lost."""


@final
@dataclass(frozen=True)
class Stepped(Word):
    """A worker's last row of records, a few times per second; may be lost."""

    row: StepsRow


@final
@dataclass(frozen=True)
class Paused(Word):
    """A worker rests at a gate after so many steps."""

    progress: int
    shares: bool = False
    """Whether it came to evaluate a share of the rows."""


@final
@dataclass(frozen=True)
class Refused(Word):
    """A worker that fails says how many of its steps came to nothing."""

    steps: RefusedSteps


@final
@dataclass(frozen=True)
class Trained(Word):
    """A worker has done its part."""

    account: WorkerAccount


@final
@dataclass(frozen=True)
class Settled(Word):
    """A worker has settled."""


@final
@dataclass(frozen=True)
class Saved(Word):
    """The parameters are kept, by the worker that was asked to."""


@final
@dataclass(frozen=True)
class Copied(Word):
    """A seat has copied its state, and can go on."""

    what: Copy


@final
@dataclass(frozen=True, kw_only=True)
class Kept(Word):
    """A seat's copy is written, or could not be."""

    what: Copy
    num_bytes: int = 0
    digest: str = ""
    """SHA-256 of the file, in hex."""
    problem: str = ""
    """Why there is no file."""


@final
@dataclass(frozen=True, kw_only=True)
class Fetch(Word):
    """A seat wants a part of the state of a seat, from a byte on, to go on from it."""

    what: Copy
    seat: str
    start: int


@final
@dataclass(frozen=True)
class Evaluated(Word):
    """What the worker that was asked to evaluate found, or each of those that share it."""

    metrics: dict[str, AnyFloat]
    num_rows: int = 0
    """Of how many rows, where they are shared."""


@final
@dataclass(frozen=True, kw_only=True)
class Logged(Word):
    """What a script found after so many steps, by its own means and when it liked."""

    metrics: dict[str, AnyFloat]
    progress: int


@final
@dataclass(frozen=True)
class Served(Word):
    """What a server has counted."""

    account: ServerAccount


@final
@dataclass(frozen=True, kw_only=True)
class Piece(Word):
    """Part of what a seat keeps, from one that does not see the run's folder."""

    what: Literal[StreamName, KeptFile]
    start: int
    """How many bytes of it were sent before."""
    data: str
    """In base64."""
    dropped: int = 0
    """How many times something was appended before that could not be sent, and never will."""
    digest: str | None = None
    """With the last piece of a file: SHA-256 of the whole, in hex."""


@final
@dataclass(frozen=True)
class Failed(Word):
    """A seat cannot go on."""

    error: str


@final
@dataclass(frozen=True)
class Lost(Word):
    """A seat no longer reaches another: that one is the cause."""

    seat: str
    reason: str
    incarnation: int | None = None
    """Of the lost one; None: it is not known which."""


@final
@dataclass(frozen=True)
class Answered(Word):
    """What a seat of a conformance suite was started for."""

    value: Any
