"""The whole conductor, with seats that are no processes, in every order that can occur.

What is checked at every word is in `fakes.FakeSeat.hear`: who has left or was told to leave hears
nothing more, one worker at a time is asked for something, and only when all rest; nobody is resumed
twice; no phase follows one that it cannot follow.
"""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import Record
from paceline.comm import monitor_words, words
from tests.comm.rows import SAMPLE
from tests.engine.fakes import SPEC, Stage, begun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


class Choices:
    """Makes every sequence of choices there is, one after the other, the last choice first."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []
        self._place = 0

    def __call__(self, num: int) -> int:
        if self._place == len(self._path):
            self._path.append((0, num))
        self._place += 1
        return self._path[self._place - 1][0]

    def go_on(self) -> bool:
        """Begin the next sequence; False when there is none."""
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        self._place = 0
        if not self._path:
            return False
        choice, num = self._path.pop()
        self._path.append((choice + 1, num))
        return True


def test_every_order_in_which_seats_come_and_join_ends_in_one_start(folder: Path):
    choices, num_orders = Choices(), 0
    while num_orders == 0 or choices.go_on():
        num_orders += 1
        stage = Stage(folder, workers=2, servers=1)
        for _ in range(6):
            acting = stage.acting()
            acting[choices(len(acting))].act()
            assert not [word for _, word in stage.told if isinstance(word, words.Start)]
            stage.deliver()
        assert [each.state for each in stage.seats.values()] == ["training", "training", "serving"]
        members = [stage.told_to(name, words.Members) for name in stage.seats]
        assert [len(each) for each in members] == [1, 1, 1]
        assert len({word.roster for each in members for word in each}) == 1
        stage.close()
    assert num_orders == 6 * 6


def test_every_order_of_two_workers_words_leads_to_the_same_end(folder: Path):
    choices, num_orders = Choices(), 0
    while num_orders == 0 or choices.go_on():
        num_orders += 1
        stage = begun(folder)
        stage.play(choices)
        stage.close()
        assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
        assert [row["progress"] for row in stage.outcome.evaluations] == [10, 20]
        assert stage.outcome.totals.keys() == {"worker0", "worker1"}
        assert stage.conductor.stragglers == []
    assert num_orders == 2**6  # they rest, settle, end, settle, settle and leave


def test_every_order_in_which_three_workers_end_lets_all_go_once(folder: Path):
    spec = replace(SPEC, record=Record(model=False))
    choices, num_orders = Choices(), 0
    while num_orders == 0 or choices.go_on():
        num_orders += 1
        stage = begun(folder, workers=3, gates=0, spec=spec)
        stage.play(choices)
        stage.close()
        assert (stage.outcome.status, stage.outcome.reason) == ("finished", None)
        assert len(stage.outcome.evaluations) == 1
        assert [len(stage.told_to(each.name, words.Finish)) for each in stage.workers] == [1, 1, 1]
    assert num_orders == 6**3  # they end, settle and leave


@dataclass(frozen=True)
class Event:
    """Something that may happen at any moment of a run."""

    name: str
    happen: Callable[[Stage], None]
    reason: str | None


EVENTS = (
    Event("worker0 fails", lambda stage: stage.seats["worker0"].fail(), "worker0: ValueError: x"),
    Event(
        "worker1 is killed",
        lambda stage: stage.seats["worker1"].leave("killed by signal 9 (SIGKILL)"),
        "worker1: killed by signal 9 (SIGKILL)",
    ),
    Event(
        "worker0 loses worker1",
        lambda stage: stage.seats["worker0"].lose("worker1"),
        "worker1: worker0 lost the connection to it",
    ),
    Event(
        "worker1 says what nobody says",
        lambda stage: stage.seats["worker1"].garble(),
        "worker1: it said what is never said there",
    ),
    Event("the user stops it", lambda stage: stage.conductor.interrupt(), None),
)


def moments(folder: Path, **options: Any) -> Iterator[Stage]:
    """Give a stage at every moment between two acts of a run, from the first to the last."""
    num_acts = 0
    while True:
        stage = Stage(folder, **options)
        for _ in range(num_acts):
            stage.acting()[-1 - num_acts % 2 if len(stage.acting()) > 1 else 0].act()
            stage.deliver()
        is_over = stage.conductor.is_over
        if not is_over:
            yield stage
        stage.close()
        if is_over:
            return
        num_acts += 1


@pytest.mark.parametrize("event", EVENTS, ids=lambda each: each.name)
@pytest.mark.parametrize("others", ["have said nothing", "have said something too"])
def test_what_goes_wrong_at_any_moment_is_the_cause(others: str, event: Event, folder: Path):
    num_moments = 0
    for stage in moments(folder, servers=1, monitors=1):
        num_moments += 1
        names = [name for name in ("worker0", "worker1") if name in event.name]
        if not all(stage.seats[name].is_here for name in names):
            continue  # who has left cannot fail any more
        if others == "have said something too":
            for seat in stage.acting():
                if seat.name not in names and not seat.is_let_go:
                    seat.act()
        event.happen(stage)
        stage.hear_departures()
        stage.play()
        if event.reason is None:
            assert stage.outcome.status == "interrupted"
            assert stage.outcome.reason == "stopped by the user"
            assert stage.conductor.failed_seat is None
        else:
            assert (stage.outcome.status, stage.outcome.reason) == ("failed", event.reason)
            assert stage.conductor.failed_seat == event.reason.partition(":")[0]
    assert num_moments > 25


@settings(max_examples=40, derandomize=True)
@given(st.binary(min_size=60, max_size=60), st.sets(st.sampled_from(EVENTS[:-1]), max_size=2))
def test_any_schedule_of_many_seats_comes_to_an_end_with_the_first_cause(
    folder: Path, schedule: bytes, events: set[Event]
):
    """Words wait on lines, departures are heard late, and up to two things go wrong."""
    stage = Stage(folder, workers=3, servers=1, monitors=2, gates=2)
    pending = sorted(events, key=lambda each: each.name)
    for number in schedule:
        acting = stage.acting()
        if number % 7 == 0 and pending and all(each.is_here for each in stage.workers):
            pending.pop().happen(stage)
        elif acting:
            acting[number % len(acting)].act()
        if number % 3:
            stage.deliver()
    stage.play()
    stage.close()
    happened = {each.reason for each in events} - {each.reason for each in pending}
    status, reason = stage.outcome.status, stage.outcome.reason
    if not happened:
        assert (status, reason) == ("finished", None)
    else:
        # Of two failures that were on their way at once either may be heard first; what follows
        # from a failure, an exit code of another seat, is never the cause.
        assert status == "failed"
        assert reason in happened


@pytest.mark.parametrize(
    ("number", "reason"),
    [(0, "worker0: the first"), (1, "worker1: the first")],
)
def test_the_first_failure_is_the_cause_and_what_follows_is_not(number, reason, folder: Path):
    stage = begun(folder)
    stage.workers[number].fail("the first")
    stage.deliver()
    stage.workers[1 - number].fail("the second")
    stage.play()
    stage.close()
    assert stage.outcome.reason == reason
    assert stage.told_to(f"worker{1 - number}", words.Abort)


def test_a_seat_that_does_not_leave_is_not_waited_for_longer_than_its_time(folder: Path):
    stage = begun(folder, gates=0)
    stage.play_until(lambda: all(each.is_let_go for each in stage.workers))
    stage.workers[0].act()
    stage.deliver()
    stage.now.now_s += 29.9
    assert not stage.conductor.is_over
    stage.now.now_s += 0.2
    assert stage.conductor.is_over
    assert stage.conductor.stragglers == ["worker1"]
    assert stage.outcome.status == "finished"
    stage.close()


def test_after_a_failure_seats_have_a_moment_to_write_their_last_rows(folder: Path):
    stage = begun(folder)
    stage.workers[0].fail()
    stage.deliver()
    stage.now.now_s += 4.9
    assert not stage.conductor.is_over
    stage.now.now_s += 0.2
    assert stage.conductor.is_over
    stage.close()


def test_a_stop_waits_for_the_current_step_and_no_longer(folder: Path):
    stage = begun(folder)
    stage.conductor.interrupt()
    assert stage.conductor.view().phase == "stopping"
    stage.now.now_s += 119.9
    assert not stage.conductor.is_over
    stage.now.now_s += 0.2
    assert stage.conductor.is_over
    stage.close()


def test_who_asks_twice_or_before_training_does_not_wait(folder: Path):
    stage = begun(folder)
    stage.conductor.interrupt()
    stage.conductor.interrupt()
    assert stage.conductor.is_over
    stage.close()
    stage = Stage(folder)
    stage.conductor.interrupt()
    assert stage.conductor.is_over
    stage.close()


def test_a_stop_after_a_failure_changes_neither_the_cause_nor_the_time(folder: Path):
    stage = begun(folder)
    stage.workers[0].fail("the cause")
    stage.deliver()
    stage.conductor.interrupt()
    stage.now.now_s += 5.1
    assert stage.conductor.is_over
    assert (stage.outcome.status, stage.outcome.reason) == ("failed", "worker0: the cause")
    stage.close()


def test_a_failure_while_the_run_stops_is_a_warning_and_nobody_waits_for_that_seat(folder: Path):
    stage = begun(folder)
    stage.conductor.interrupt()
    stage.workers[1].leave("killed by signal 9 (SIGKILL)")
    stage.deliver()
    assert stage.told_to("worker0", words.Abort)
    stage.now.now_s += 5.1
    assert stage.conductor.is_over
    assert stage.outcome.status == "interrupted"
    (warning,) = stage.outcome.warnings
    assert warning.startswith("worker1 failed while the run was stopped: killed by signal 9")
    stage.close()


def test_a_worker_that_leaves_well_but_early_is_a_failure(folder: Path):
    stage = begun(folder)
    stage.workers[1].leave("")
    stage.play()
    stage.close()
    assert stage.outcome.reason == "worker1: ended before the run was over"


def test_a_silent_worker_is_told_of_and_fails_the_run_where_asked(folder: Path):
    for when_stuck, is_failed in (("wait", False), ("stop", True)):
        stage = begun(folder, spec=replace(SPEC, when_stuck=when_stuck))
        asked: list[str] = []
        stage.conductor.look_for_stuck(asked.append)
        stage.now.now_s += 61.0
        stage.conductor.look_for_stuck(asked.append)
        assert asked == ["worker0", "worker1"]
        stage.now.now_s += 1.1
        stage.conductor.look_for_stuck(asked.append)
        alerts = stage.conductor.view().alerts
        assert alerts[0] == "worker0 was silent for 62 s; it wrote no stack"
        assert (stage.conductor.failed_seat is not None) == is_failed
        stage.close()


def test_who_rests_is_not_stuck_and_who_evaluates_may_be(folder: Path):
    stage = begun(folder)
    stage.play_until(lambda: isinstance(stage.workers[0].errand, words.Evaluate))
    asked: list[str] = []
    for _ in range(2):
        stage.conductor.look_for_stuck(asked.append)
        stage.now.now_s += 61.0
    assert asked == ["worker0"]
    stage.close()


def test_seats_that_start_from_other_values_are_found_before_training(folder: Path):
    stage = Stage(folder)
    for number, seat in enumerate(stage.workers):
        seat.line.say(words.Here(pid=number), words.Joined(state={"weight": number}))
    stage.deliver()
    stage.close()
    assert stage.outcome.status == "failed"
    assert "at the start its 'weight' differs" in (stage.outcome.reason or "")
    assert not stage.told_to("worker0", words.Start)


def named(stage: Stage) -> str:
    """Who is told of when nothing is said for too long."""
    for seconds in (0.0, 61.0, 1.1):
        stage.now.now_s += seconds
        stage.conductor.look_for_stuck(lambda _: None)
    return " ".join(alert.partition(" ")[0] for alert in stage.conductor.view().alerts)


def test_a_monitor_that_does_not_note_is_told_of_though_it_samples_on(folder: Path):
    stage = begun(folder, monitors=2)
    monitors = [each for each in stage.seats.values() if each.seat.role == "monitor"]
    for each in stage.workers:
        each.act()
    stage.deliver()
    while monitors[0].notes:
        monitors[0].act()
    stage.conductor.look_for_stuck(lambda _: None)
    for _ in range(7):
        stage.now.now_s += 10.0
        monitors[1].line.say(monitor_words.Sampled(SAMPLE))
        stage.deliver()
        stage.conductor.look_for_stuck(lambda _: None)
    assert named(stage) == "monitor1"
    stage.close()


def test_every_seat_that_does_not_join_is_told_of(folder: Path):
    for missing in ("worker1", "server0", "monitor0"):
        stage = Stage(folder, servers=1, monitors=1)
        for seat in stage.seats.values():
            if seat.name != missing:
                seat.line.say(words.Here(pid=1), words.Joined())
        stage.deliver()
        assert named(stage) == missing
        stage.close()


def test_where_asked_for_a_run_stops_that_waits_for_a_note(folder: Path):
    stage = begun(folder, monitors=1, gates=0, spec=replace(SPEC, when_stuck="stop"))
    for each in stage.workers:
        each.act()
    stage.deliver()
    assert named(stage) == "monitor0"
    assert stage.conductor.failed_seat == "monitor0"
    stage.close()


def test_nothing_here_may_start_a_process():
    with pytest.raises(AssertionError, match="started a process"):
        subprocess.run(["true"], check=True)
