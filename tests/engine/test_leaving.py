"""A seat's last words count, though they come after the news that its process has ended."""

from pathlib import Path

import pytest

from paceline.clusters.base import Departure
from paceline.comm import words
from paceline.engine.departures import ReplacePolicy
from tests.engine.fakes import Stage, begun
from tests.engine.test_departures import APART


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    for name in ("records", "logs"):
        (tmp_path / name).mkdir()
    return begun(tmp_path)


def depart(stage: Stage, reason: str = "exit code 1") -> None:
    """A keeper says that worker1 has left; its own line is slower."""
    seat = stage.seats["worker1"]
    seat.state = "gone"
    stage.departed.append(Departure(seat.name, reason, seat.incarnation))
    stage.deliver()


def test_the_cause_that_comes_after_the_departure_is_the_cause(stage: Stage):
    depart(stage)
    assert stage.outcome.reason == "it did not finish"
    line = stage.seats["worker1"].line
    line.say(words.Failed("ValueError: x"))
    stage.deliver()
    assert stage.outcome.reason == "worker1: ValueError: x"
    line.leave()
    stage.play()
    stage.close()
    assert stage.outcome.reason == "worker1: ValueError: x"
    assert stage.conductor.stragglers == []


def test_the_end_of_its_line_ends_the_wait(stage: Stage):
    depart(stage)
    stage.seats["worker1"].line.leave()
    stage.deliver()
    stage.close()
    assert stage.outcome.reason == "worker1: exit code 1"


def test_a_line_that_does_not_end_is_not_waited_for_longer_than_a_moment(stage: Stage):
    depart(stage)
    stage.now.now_s += 0.9
    stage.deliver()
    assert stage.conductor.failed_seat is None
    stage.now.now_s += 0.2
    stage.deliver()
    stage.close()
    assert stage.outcome.reason == "worker1: exit code 1"


def test_while_words_come_they_are_waited_for_but_not_for_ever(stage: Stage):
    depart(stage)
    for _ in range(11):
        assert stage.conductor.failed_seat is None
        stage.now.now_s += 0.95
        stage.seats["worker1"].line.say(words.Piece(what="log", start=0, data=""))
        stage.deliver()
    stage.close()
    assert stage.outcome.reason == "worker1: exit code 1"


def test_who_is_leaving_is_told_nothing(stage: Stage):
    depart(stage)
    stage.conductor.interrupt()
    assert not stage.told_to("worker1", words.Stop)
    assert stage.told_to("worker0", words.Stop)
    stage.close()


def test_one_that_leaves_slowly_is_started_again_and_spoken_to(tmp_path: Path):
    stage = begun(tmp_path, workers=3, servers=1, spec=APART, policy=ReplacePolicy())
    depart(stage, "killed by signal 9 (SIGKILL)")
    stage.now.now_s += 1.1
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert stage.seats["worker1"].incarnation == 1


def test_one_that_was_given_up_with_its_node_is_not_waited_for_and_hears_that_it_is_to_leave(
    stage: Stage,
):
    stage.departed.append(Departure("worker1", "node1 (b) is lost: it is off", is_final=True))
    stage.hear_departures()
    assert stage.outcome.reason == "worker1: node1 (b) is lost: it is off"
    assert stage.told_to("worker1", words.Abort)
    assert "worker1" not in stage.conductor.stragglers
    assert stage.conductor.view().alerts == ("node1 (b) is lost: it is off",)
    stage.close()
