"""Something done once on every node of a cluster that is no run: measured, watched, told."""

from __future__ import annotations

import base64
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, final

from paceline.clusters.base import Cluster, Crew, Departure, Job
from paceline.clusters.luggage import Packed
from paceline.comm.line import LineClosed
from paceline.comm.node_words import (
    CommandEnded,
    CommandMissing,
    CommandUsed,
    NodeAnswer,
    RatesMeasured,
    StepsMeasured,
)
from paceline.comm.roster import Seat
from paceline.comm.spelling import encode
from paceline.comm.words import Failed, Piece, Word
from paceline.errors import Problem, RunError, SpecError
from paceline.store.runs import RunDir
from paceline.system.waiting import Deadline

_LOOK_S: Final = 0.02
# How long a seat that hung up has to be told of.
_LEAVING_S: Final = 10.0

ShowPrinted = Callable[[str, bytes], None]


def on_nodes(
    cluster: Cluster,
    entry: str,
    task: Word,
    *,
    luggage: Sequence[Packed] = (),
    threads_on: Callable[[float, int], int] | None = None,
    printed: ShowPrinted = lambda _node, _data: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, NodeAnswer]]:
    """Call an entry function on each node; yields a node and what was answered there, as it comes.

    `task` is what it is to do. `printed` is called with what it prints on a node. Raises
    `NodeMissing` of a node that did not come, and `RunError` of one on which it failed.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-nodes-") as folder:
        place = RunDir(Path(folder))
        place.logs.mkdir()
        job = Job(
            run_dir=place.path,
            run_key=secrets.token_bytes(16),
            entry=entry,
            seats=_one_each(cluster),
            threads=1,
            text=encode(task).decode(),
            luggage=luggage,
            threads_on=threads_on,
            tell=tell,
        )
        crew = cluster.start(job)
        try:
            yield from _Hearing(crew, job.seats, printed).answers()
        finally:
            crew.end()


def workers_on(cluster: Cluster) -> int:
    """Say how many workers its nodes are for; raises `SpecError` if it has no number of nodes."""
    number = cluster.workers_meant(0)
    if number is None:
        reason = "no number of nodes was given, and there are no workers to go by"
        raise SpecError([Problem("cluster.nodes", None, f"{reason}: --set cluster.nodes=3")])
    return number


def _one_each(cluster: Cluster) -> list[Seat]:
    """Give the first worker of each node."""
    seats = cluster.seats(workers_on(cluster), 0)
    first: dict[str, Seat] = {}
    for seat in seats:
        if seat.role == "worker":
            first.setdefault(seat.node, seat)
    return [*first.values()]


@final
class _Hearing:
    """Hears all seats of a crew to their ends."""

    def __init__(self, crew: Crew, seats: Sequence[Seat], printed: ShowPrinted) -> None:
        self._crew = crew
        self._nodes = {seat.name: seat.node for seat in seats}
        self._printed = printed
        self._open = {seat.name for seat in seats}
        self._left: dict[str, Departure] = {}

    def answers(self) -> Iterator[tuple[str, NodeAnswer]]:
        while self._open:
            heard = [each for name in sorted(self._open) for each in self._heard(name)]
            yield from heard
            self._note_departures()
            if not heard:
                time.sleep(_LOOK_S)
        self._await_ends()

    def _heard(self, name: str) -> Iterator[tuple[str, NodeAnswer]]:
        """Take all that a seat has said so far."""
        node = self._nodes[name]
        try:
            while (word := self._crew.lines[name].receive(0)) is not None:
                match word:
                    case (
                        CommandUsed()
                        | CommandEnded()
                        | CommandMissing()
                        | StepsMeasured()
                        | RatesMeasured()
                    ):
                        yield node, word
                    case Piece(what="log"):
                        self._printed(node, base64.b64decode(word.data))
                    case Failed(error):
                        raise RunError(f"on {node}: {error}")
        except LineClosed:
            self._open.discard(name)

    def _note_departures(self) -> None:
        for each in self._crew.departures():
            self._left[each.seat] = each
            if each.reason:
                raise RunError(f"on {self._nodes[each.seat]}: {each.reason}")

    def _await_ends(self) -> None:
        deadline = Deadline(_LEAVING_S)
        while self._left.keys() != self._nodes.keys() and deadline.left_s:
            self._note_departures()
            time.sleep(_LOOK_S)
