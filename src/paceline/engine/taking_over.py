"""A worker's part in taking over rows of one that is gone: it hears what, and says from when on."""

from __future__ import annotations

from paceline.comm.seat_line import SeatLine
from paceline.comm.words import TakenOver, TakeOver
from paceline.engine.feed import Feed
from paceline.engine.session import WorkerSession


def take_over_when_told(line: SeatLine, feed: Feed, session: WorkerSession) -> None:
    """Have this thread take rows of others whenever it looks at its line, but not at its end."""

    def act(word: TakeOver) -> bool:
        if not session.take_over(word.shares, looks_ahead=feed.looks_ahead):
            return False
        feed.take_over(word.shares)
        return True

    feed.say_taken_over = lambda shares, batches: line.send(TakenOver(shares, batches))
    line.heed(TakeOver, act)
