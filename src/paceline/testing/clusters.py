"""What every cluster must do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from paceline.clusters.base import Berth, Cluster, Crew, Departure, Job
from paceline.comm.base import Finished
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.words import Abort, Answered, Finish, Here, Members, Piece, Start, Word
from paceline.errors import Aborted
from paceline.system.waiting import time_left
from paceline.testing.sharing import shared_zygote

_PATIENCE_S = 60.0


def entry(berth: Berth) -> int:
    """What the seats of these tests do; their orders say which."""
    return _PARTS[berth.ticket.orders.spec or ""](berth)


def _say_who(berth: Berth) -> int:
    berth.line.send(Answered([berth.seat.name, berth.seat.node]))
    return 0


def _greet(berth: Berth) -> int:
    """Each worker sends its rank to the server, which answers with ten times that."""
    import torch

    channel = berth.open_channel()
    try:
        if berth.seat.role == "server":
            while True:
                message = channel.receive()
                channel.send(message.sender, message.values * 10)
        channel.send("server0", torch.tensor([float(berth.seat.index)]))
        berth.line.send(Answered(channel.receive().values.item()))
        berth.line.wait(Finish)
    except Finished:
        pass
    finally:
        channel.close()
    return 0


def _wait_for_ever(berth: Berth) -> int:
    berth.line.send(Answered("waiting"))
    try:
        berth.line.wait(Start)  # which nobody says
    except Aborted as error:
        if str(error) != "the driver is gone":
            return 7
    return 3


def _fail(berth: Berth) -> int:
    return 5 if berth.seat.index == 1 else _wait_for_ever(berth)


_PARTS = {"who": _say_who, "greet": _greet, "wait": _wait_for_ever, "fail": _fail}


class ClusterConformance:
    """Subclass it, set `cluster`, and run pytest."""

    cluster: ClassVar[Cluster]

    def start(self, what: str, folder: Path, workers: int = 2, servers: int = 0) -> Crew:
        """Start seats that do one of the parts above."""
        run_dir = folder / what
        (run_dir / "logs").mkdir(parents=True)
        seats = self.cluster.seats(workers, servers)
        job = Job(
            run_dir=run_dir,
            run_key=bytes(16),
            entry=f"{__name__}:entry",
            seats=[seat for seat in seats if seat.role != "monitor"],
            threads=1,
            zygote=shared_zygote(),
            text=what,
        )
        return self.cluster.start(job)

    def test_every_seat_has_a_node_and_every_node_a_monitor(self) -> None:
        seats = self.cluster.seats(3, 2)
        names = [seat.name for seat in seats]
        assert sorted(set(names)) == sorted(names)
        assert {"worker0", "worker1", "worker2", "server0", "server1"} <= set(names)
        watched = {seat.node for seat in seats if seat.role == "monitor"}
        assert watched == {seat.node for seat in seats}

    def test_every_seat_starts_knows_who_it_is_and_leaves(self, tmp_path: Path) -> None:
        crew = self.start("who", tmp_path, workers=3)
        try:
            nodes = {seat.name: seat.node for seat in self.cluster.seats(3, 0)}
            said = {name: _answer(crew, name) for name in crew.lines}
            assert said == {name: [name, nodes[name]] for name in ("worker0", "worker1", "worker2")}
            assert {each.reason for each in _departures(crew, 3)} == {""}
        finally:
            crew.end()

    def test_seats_can_talk_to_each_other(self, tmp_path: Path) -> None:
        crew = self.start("greet", tmp_path, workers=2, servers=1)
        try:
            introduce(crew, self.cluster.seats(2, 1))
            assert _answer(crew, "worker0") == 0.0
            assert _answer(crew, "worker1") == 10.0
            for line in crew.lines.values():
                line.send(Finish())
            assert {each.reason for each in _departures(crew, 3)} == {""}
        finally:
            crew.end()

    def test_a_seat_that_fails_is_told_of_and_the_others_can_be_told(self, tmp_path: Path) -> None:
        crew = self.start("fail", tmp_path)
        try:
            assert _departures(crew, 1) == [Departure("worker1", "exit code 5")]
            assert _answer(crew, "worker0") == "waiting"
            crew.lines["worker0"].send(Abort("worker1 failed"))
            assert _departures(crew, 1) == [Departure("worker0", "exit code 7")]
        finally:
            crew.end()

    def test_end_ends_seats_that_wait_for_ever_and_can_be_said_twice(self, tmp_path: Path) -> None:
        crew = self.start("wait", tmp_path)
        for name in crew.lines:
            _answer(crew, name)
        crew.end()
        crew.end()


def introduce(crew: Crew, seats: Sequence[Seat]) -> None:
    """Hear from every seat where it is, and tell all: what a run's driver does first of all."""
    roster = Roster(())
    for seat in seats:
        if seat.name in crew.lines:
            word = _next(crew, seat.name)
            assert isinstance(word, Here)
            roster = roster.with_sitting(Sitting(seat=seat, address=word.address, key=word.key))
    for line in crew.lines.values():
        line.send(Members(roster))


def _answer(crew: Crew, seat: str) -> Any:
    """What a seat answers, after it has said that it is there."""
    while not isinstance(word := _next(crew, seat), Answered):
        assert isinstance(word, (Here, Piece))  # it may print something
    return word.value


def _next(crew: Crew, seat: str) -> Word:
    word = crew.lines[seat].receive(_PATIENCE_S)
    assert word is not None, f"{seat} said nothing"
    return word


def _departures(crew: Crew, number: int) -> list[Departure]:
    found: list[Departure] = []
    for _ in time_left(_PATIENCE_S):
        found += crew.departures()
        if len(found) >= number:
            break
    return found
