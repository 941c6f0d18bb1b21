"""Which sink a seat has: the run's folder if it sees that, else its line to the driver."""

from __future__ import annotations

from pathlib import Path

from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Ticket
from paceline.sinks.base import Sink
from paceline.sinks.folder import FolderSink
from paceline.sinks.line import LineSink
from paceline.store.runs import RunDir


def sink_of(ticket: Ticket, line: SeatLine) -> Sink:
    """Give a seat its sink."""
    folder = ticket.orders.folder
    if folder is None:
        return LineSink(line)
    return FolderSink(RunDir(Path(folder)), ticket.seat)
