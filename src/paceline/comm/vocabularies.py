"""Who may say which words on a line, and by which names they travel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from paceline.comm.monitor_words import Enter, Noted, Observe, Sampled
from paceline.comm.node_words import (
    CommandEnded,
    CommandMissing,
    CommandUsed,
    MeasureRates,
    RatesMeasured,
    StepsMeasured,
    ThreadsTimed,
    WatchCommand,
)
from paceline.comm.words import (
    Abort,
    Answered,
    Copied,
    Entered,
    Evaluate,
    Evaluated,
    Failed,
    Fetch,
    Finish,
    Here,
    Joined,
    Keep,
    Kept,
    Logged,
    Lost,
    Members,
    Parted,
    Paused,
    Piece,
    Portion,
    Refused,
    RestAt,
    Restored,
    Resume,
    Save,
    Saved,
    Served,
    Settle,
    Settled,
    Start,
    Stepped,
    Stop,
    TakenOver,
    TakeOver,
    Trained,
    Word,
)
from paceline.seats import Role

Vocabulary = Mapping[str, type[Word]]


def vocabulary(words: Iterable[type[Word]]) -> Vocabulary:
    """What one end of a line may say, by the names that travel."""
    return {kind_of(each): each for each in words}


def kind_of(word: type[Word]) -> str:
    """Name a word as it is named where it travels."""
    return word.__name__.lower()


FROM_DRIVER: Final = vocabulary(
    [
        *(Members, Start, Settle, Evaluate, Save, Resume, RestAt, Keep, Portion, Stop, Finish),
        *(Abort, Observe, Enter, TakeOver),
    ]
)
_FROM_ANY: Final = (Here, Joined, Piece, Failed, Lost, Answered)
_OF_STATES: Final = (Copied, Kept, Fetch)
_OF_NODES: Final = (CommandUsed, CommandEnded, CommandMissing, StepsMeasured, RatesMeasured)
FROM_WORKERS: Final = vocabulary(
    (
        *_FROM_ANY,
        *_OF_STATES,
        *(Entered, Stepped, Paused, Refused, Trained, Settled, Saved, Evaluated, Logged),
        TakenOver,
        *_OF_NODES,
        ThreadsTimed,
    )
)
FROM_SERVERS: Final = vocabulary((*_FROM_ANY, *_OF_STATES, Served, Restored, Parted))
FROM_MONITORS: Final = vocabulary((*_FROM_ANY, Sampled, Noted))
_BY_ROLE: Final[Mapping[Role, Vocabulary]] = {
    "worker": FROM_WORKERS,
    "server": FROM_SERVERS,
    "monitor": FROM_MONITORS,
}
NODE_TASKS: Final = vocabulary([WatchCommand, MeasureRates])
"""What seats are started for by commands that are no run."""
NOTHING: Final = vocabulary([])


def said_by(role: Role) -> Vocabulary:
    """What a seat of a role may say to the driver."""
    return _BY_ROLE[role]
