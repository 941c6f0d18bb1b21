"""Faults strike at their moments, end after their time, and are noted."""

import dataclasses
import signal
from collections import Counter
from pathlib import Path

from paceline.comm.keeper_words import Cut, Signal, Slow
from paceline.comm.roster import Roster, Seat
from paceline.comm.words import Word
from paceline.engine.disturbances import Disturbances
from paceline.engine.injector import Injector
from paceline.engine.known import facts_of
from paceline.engine.ledger import Ledger
from paceline.faults import Fault
from paceline.outcome.disturbed import goodput
from paceline.outcome.outcome import Outcome
from paceline.store.runs import RunDir
from tests.engine.fakes import ORDER, SPEC, FakeClock

ROSTER = Roster.of([Seat("worker", index, f"node{index}") for index in range(3)])


class Scene:
    def __init__(self, folder: Path, *faults: str) -> None:
        self.clock, self.roster = FakeClock(), ROSTER
        self.struck: list[Word] = []
        self.returns: dict[str, float] = {}
        self.outcome = Outcome()
        ledger = Ledger(SPEC, self.outcome, RunDir(folder), began_s=0.0, now=self.clock)
        ledger.started()
        self.disturbances = Disturbances(ledger, self.clock)
        self.injector = Injector(
            [Fault.parse(each) for each in faults],
            seed=3,
            strike=self.struck.append,
            bring_back=self.returns.__setitem__,
            disturbances=self.disturbances,
            now=self.clock,
        )

    def at(self, time_s: float, steps: int = 0, living: int = 3) -> list[Word]:
        """Go on to a moment of training; gives what struck then."""
        self.struck.clear()
        self.clock.now_s = 1000.0 + time_s
        names = [f"worker{index}" for index in range(living)]
        self.injector.strike_due(time_s, steps, self.roster, names)
        self.injector.end_due()
        return list(self.struck)

    def replace(self, name: str) -> None:
        """Have a seat started again."""
        before = self.roster.by_name[name]
        again = dataclasses.replace(before, incarnation=before.incarnation + 1)
        self.roster = self.roster.with_sitting(again)


def test_a_kill_strikes_once_at_its_step(tmp_path: Path):
    scene = Scene(tmp_path, "kill:worker1@step=20")
    assert scene.at(1.0, steps=19) == []
    assert scene.at(1.1, steps=23) == [Signal(seat="worker1", number=signal.SIGKILL)]
    assert scene.at(1.2, steps=30) == []
    (noted,) = scene.outcome.disturbances
    assert (noted.who, noted.fault) == ("worker1", "kill:worker1@step=20")
    assert scene.returns == {}


def test_a_restart_comes_back_after_its_time(tmp_path: Path):
    scene = Scene(tmp_path, "restart:worker1@2s+3s")
    scene.at(2.0)
    assert scene.returns == {"worker1": 1005.0}


def test_what_lasts_ends(tmp_path: Path):
    scene = Scene(
        tmp_path, "stop:worker0@1s+2s", "slow:worker1x4@1s+3s", "cut:node2@1s+4s", "late:worker2@9s"
    )
    assert scene.at(1.0) == [
        Signal(seat="worker0", number=signal.SIGSTOP),
        Slow(seat="worker1", factor=4.0),
        Cut(node="node2", is_down=True),
    ]
    assert scene.at(3.0) == [Signal(seat="worker0", number=signal.SIGCONT)]
    assert scene.at(4.0) == [Slow(seat="worker1", factor=1.0)]
    assert scene.at(5.0) == [Cut(node="node2", is_down=False)]
    assert [each.ended_s for each in scene.outcome.disturbances] == [3.0, 4.0, 5.0]
    scene.at(9.0)
    assert scene.returns["worker2"] == 1009.0
    assert scene.returns["worker0"] == 1003.0  # should it be given up meanwhile


def test_random_kills_repeat_by_their_seed_and_spare_the_last(tmp_path: Path):
    def victims(living: int) -> list[str]:
        scene, names = Scene(tmp_path, "random:mtbf=2s,most=40"), []
        for tick in range(4000):
            for word in scene.at(tick / 10, living=living):
                assert isinstance(word, Signal)
                names.append(word.seat)
                scene.replace(word.seat)
        return names

    first = victims(3)
    assert first == victims(3)
    assert len(first) == 40
    assert set(Counter(first)) == {"worker0", "worker1", "worker2"}
    assert "worker0" not in victims(1)


def test_who_was_killed_a_moment_ago_does_not_count_as_living(tmp_path: Path):
    scene = Scene(tmp_path, "random:mtbf=0.1s")
    struck = [word for tick in range(200) for word in scene.at(tick / 10)]
    assert len(struck) == 2  # of three, one of which must stay


def test_a_disturbance_is_followed_to_full_strength(tmp_path: Path):
    scene = Scene(tmp_path, "restart:worker1@2s+1s")
    scene.disturbances.updated(10)
    scene.at(2.0)
    scene.clock.now_s += 0.5
    scene.disturbances.known("worker1", "node1", "killed")
    scene.disturbances.updated(10)  # none since
    scene.clock.now_s += 0.5
    scene.disturbances.updated(11)
    scene.clock.now_s += 1.0
    scene.disturbances.started("worker1")
    scene.clock.now_s += 1.0
    scene.disturbances.back("worker1")
    (noted,) = scene.outcome.disturbances
    assert (noted.detection_s, noted.update_s, noted.strength_s) == (0.5, 1.0, 1.0)
    assert noted.back_s == 5.0
    # of 3 x 10 s it was away for 3, and two others waited for 1 each
    in_step = facts_of(SPEC, ORDER)
    in_step = dataclasses.replace(in_step, num_workers=3, in_step=True)
    assert goodput([noted], in_step, 10.0) == 1 - 5 / 30
    assert goodput([noted], dataclasses.replace(in_step, in_step=False), 10.0) == 1 - 3 / 30
    assert goodput([], in_step, 10.0) is None
