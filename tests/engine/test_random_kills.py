"""Any order of deaths and returns: a run whose last worker is spared comes to its end."""

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from paceline.comm.keeper_words import Signal
from paceline.comm.line import Line
from paceline.comm.words import Lost, Restored, Word
from paceline.faults import Fault
from paceline.spec import RunSpec
from paceline.strategies.parameter_server.describe import PsAsync
from tests.engine.fakes import APART, FakeSeat, Stage
from tests.engine.test_departures import KILLED

RANDOM = "random:mtbf=0.5s,restart=0.5s,most=60,who=all"
SPEC = replace(
    APART, strategy=PsAsync(), on_failure=None, fault=(Fault.parse(RANDOM),), steps=10000
)


class Field(Stage):
    """Seats that are struck, and servers that say when they serve again."""

    def __init__(self, folder: Path, seed: int, spec: RunSpec = SPEC) -> None:
        self.random = Random(seed)
        spec, servers = replace(spec, seed=seed), spec.strategy.num_servers
        super().__init__(folder, spec=spec, workers=3, servers=servers, gates=20, strike=self.hit)
        self.servers = [name for name in self.seats if name.startswith("server")]
        self.restored: set[tuple[str, int]] = set()
        self.reports: list[tuple[FakeSeat, FakeSeat]] = []
        """Who has lost whom, and has not said so yet."""

    def hit(self, word: Word) -> None:
        if isinstance(word, Signal) and word.number == signal.SIGKILL:
            seat = self.seats[word.seat]
            if seat.is_here:
                seat.leave(KILLED)
                others = [each for each in self.seats.values() if _reaches(each, seat)]
                self.reports += [(each, seat) for each in others if self.random.random() < 0.5]

    def restart(self, name: str, incarnation: int) -> Line | None:
        line = super().restart(name, incarnation)
        self.seats[name].gates_left = 20 if name.startswith("worker") else 0
        return line

    def assert_all_rest(self, *, all_trained: bool = False) -> None:
        """Who has come while others trained may be on its way to its first rest."""

    def serves_again(self, seat: FakeSeat) -> bool:
        is_new = seat.incarnation > 0 and (seat.name, seat.incarnation) not in self.restored
        return seat.state == "serving" and is_new

    def act(self) -> None:
        """Have any of those that could do something do it."""
        moves = self.moves()
        if moves:
            self.random.choice(moves)()

    def moves(self) -> list[Callable[[], None]]:
        """What could be done now."""
        servers = [self.seats[name] for name in self.servers]
        moves = [each.act for each in self.acting()]
        moves += [partial(self.restore, each) for each in servers if self.serves_again(each)]
        return moves + [partial(self.report, *each) for each in self.reports]

    def restore(self, server: FakeSeat) -> None:
        self.restored.add((server.name, server.incarnation))
        server.line.say(Restored(version=0, num_lost=0))

    def report(self, reporter: FakeSeat, lost: FakeSeat) -> None:
        """Say that a seat is lost, unless it is known by now that it is gone."""
        self.reports.remove((reporter, lost))
        if self.seats[reporter.name] is reporter and _reaches(reporter, lost):
            reporter.line.say(Lost(lost.name, "lost the connection to it", lost.incarnation))

    def run(self) -> None:
        """Go on to the end: acts, news of deaths and seconds in any order."""
        for _ in range(20000):
            chance = self.random.random()
            if chance < 0.5:
                self.act()
            elif chance < 0.7:
                self.conductor.attend(0)
            elif chance < 0.8:
                self.hear_departures()
            else:
                self.now.now_s += 0.2 * self.random.random()
            if self.conductor.is_over:
                return
        raise AssertionError(f"no end: {[(e.name, e.state) for e in self.seats.values()]}")


def _reaches(one: FakeSeat, other: FakeSeat) -> bool:
    """Whether they exchange messages, as far as the one knows."""
    if not one.is_here or one.roster is None or one.seat.role == other.seat.role:
        return False
    sitting = one.roster.by_name.get(other.name)
    is_on = one.state not in ("new", "here", "joined")
    return is_on and sitting is not None and sitting.incarnation == other.incarnation


@pytest.mark.parametrize("seed", range(80))
def test_whoever_is_killed_at_random_the_run_finishes(tmp_path: Path, seed: int):
    field = Field(tmp_path, seed)
    field.run()
    field.close()
    assert (field.outcome.status, field.outcome.reason) == ("finished", None)
