"""Faults strike at their moments, end after their time, and are noted."""

import dataclasses
import signal
from collections import Counter
from pathlib import Path

import pytest

from paceline.comm.keeper_words import Cut, Signal, Slow
from paceline.comm.roster import Roster, Seat
from paceline.comm.words import Word
from paceline.engine.disturbances import Disturbances
from paceline.engine.injector import Injector
from paceline.engine.known import facts_of
from paceline.engine.ledger import Ledger
from paceline.faults import Fault
from paceline.outcome.disturbed import Disturbance, goodput
from paceline.outcome.outcome import Outcome
from paceline.store.runs import RunDir
from tests.engine.fakes import APART, ORDER, SPEC, FakeClock

APART_FACTS = facts_of(APART, ORDER)
IN_STEP = dataclasses.replace(APART_FACTS, in_step=True)
ROSTER = Roster.of([Seat("worker", index, f"node{index}") for index in range(3)])


class Scene:
    def __init__(self, folder: Path, *faults: str, dilation: float = 1.0) -> None:
        self.clock, self.roster = FakeClock(), ROSTER
        self.struck: list[Word] = []
        self.returns: dict[str, float] = {}
        self.outcome = Outcome()
        ledger = Ledger(SPEC, self.outcome, RunDir(folder), began_s=0.0, now=self.clock)
        ledger.started()
        self.disturbances = Disturbances(ledger, self.clock, known_s=10.0)
        self.injector = Injector(
            [Fault.parse(each) for each in faults],
            seed=3,
            strike=self.struck.append,
            bring_back=self.returns.__setitem__,
            disturbances=self.disturbances,
            now=self.clock,
            dilation=dilation,
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
    assert goodput([noted], IN_STEP, 10.0) == pytest.approx(1 - 5 / 30)
    assert goodput([noted], APART_FACTS, 10.0) == pytest.approx(1 - 3 / 30)
    assert goodput([], IN_STEP, 10.0) is None


def test_what_is_lost_twice_counts_once():
    first = Disturbance(who="worker1", struck_s=2.0, known_s=2.0, updated_s=4.0, back_s=6.0)
    second = Disturbance(who="worker2", struck_s=3.0, known_s=3.0, updated_s=4.0, back_s=5.0)
    # worker0 waits from 2 to 4, worker1 is away from 2 to 6, worker2 waits and is away from 2 to 5
    assert goodput([first, second], IN_STEP, 10.0) == pytest.approx(1 - (2 + 4 + 3) / 30)


def test_who_is_killed_again_while_it_enters_is_not_away_to_the_end():
    entering = Disturbance(who="worker1", struck_s=2.0, known_s=2.0, started_s=3.0)
    again = Disturbance(who="worker1", struck_s=4.0, known_s=4.0, started_s=5.0, back_s=6.0)
    assert goodput([entering, again], APART_FACTS, 10.0) == pytest.approx(1 - 4 / 30)
    slowed = Disturbance(who="worker1", fault="slow:worker1x4@5s+1s", struck_s=5.0)  # in vain
    assert goodput([entering, slowed], APART_FACTS, 10.0) == pytest.approx(1 - 8 / 30)


def test_a_late_worker_was_away_from_the_beginning():
    late = Disturbance(who="worker2", fault="late:worker2@3s", struck_s=3.0, back_s=4.0)
    assert goodput([late], APART_FACTS, 10.0) == pytest.approx(1 - 4 / 30)


def test_no_more_than_all_of_training_is_lost():
    never = Disturbance(who="worker1", struck_s=2.0, known_s=2.0, back_s=99.0)
    assert goodput([never], IN_STEP, 10.0) == pytest.approx(1 - 24 / 30)


@pytest.mark.parametrize("fault", ["slow:worker1x4@1s+2s", "stop:worker1@1s+2s"])
def test_a_death_long_after_a_fault_has_ended_is_an_entry_of_its_own(fault: str, tmp_path: Path):
    scene = Scene(tmp_path, fault)
    scene.at(1.0)
    scene.at(3.0)
    scene.clock.now_s += 20.0
    scene.disturbances.known("worker1", "node1", "killed")
    before, after = scene.outcome.disturbances
    assert (before.known_s, before.ended_s) == (None, 3.0)
    assert (after.fault, after.struck_s, after.known_s) == (None, 23.0, 23.0)
    assert scene.disturbances.num_faults == 1
    scene.disturbances.started("worker1")
    scene.disturbances.back("worker1")
    before, after = scene.outcome.disturbances
    assert (before.back_s, after.back_s) == (None, 23.0)


def test_who_a_cut_made_unreachable_may_be_known_a_moment_after_its_end(tmp_path: Path):
    scene = Scene(tmp_path, "cut:node1@1s+5s")
    scene.at(1.0)
    scene.at(6.0)
    scene.clock.now_s += 0.5
    scene.disturbances.known("worker1", "node1", "cannot be reached")
    (noted,) = scene.outcome.disturbances
    assert (noted.who, noted.known_s) == ("worker1", 6.5)


def test_what_lasts_is_as_slow_as_the_training_clock(tmp_path: Path):
    scene = Scene(tmp_path, "stop:worker0@1s+2s", "restart:worker1@1s+3s", dilation=10.0)
    scene.at(1.0)
    assert scene.returns == {"worker0": 1021.0, "worker1": 1031.0}


@pytest.mark.parametrize(
    "fault",
    ["kill:worker1@2s", "restart:worker1@2s+1s", "stop:worker1@2s+1s", "slow:worker1x4@2s+1s"],
)
def test_a_fault_whose_victim_is_away_strikes_nothing_and_is_told_of(fault: str, tmp_path: Path):
    scene = Scene(tmp_path, fault)
    scene.roster = ROSTER.without("worker1")
    assert scene.at(2.0) == []
    assert scene.returns == {}
    assert scene.outcome.disturbances == []
    assert scene.outcome.warnings == [f"the fault {fault} never struck: worker1 was away"]


def test_faults_that_are_still_to_come_when_the_run_is_over_are_told_of(tmp_path: Path):
    scene = Scene(tmp_path, "kill:worker1@step=20", "late:worker2@30s", "random:mtbf=900s")
    scene.at(2.0, steps=20)
    for _ in range(2):
        scene.injector.conclude()
    told = "the fault late:worker2@30s never struck: the run was over before"
    assert scene.outcome.warnings == [told]


def test_a_kill_that_had_to_spare_the_last_strikes_when_another_lives(tmp_path: Path):
    scene = Scene(tmp_path, "random:mtbf=2s,most=1")
    scene.roster = Roster.of([Seat("worker", 0, "node0")])
    assert scene.at(100.0, living=1) == []
    scene.roster = ROSTER
    assert len(scene.at(100.1)) == 1
