"""What a run that is started again begins with, and what is noted of it. No process is started."""

import dataclasses
import time
from pathlib import Path

import pytest

from paceline.comm import words
from paceline.engine.again import NextAttempt
from paceline.faults import Fault
from paceline.outcome.disturbed import Disturbance, Setback
from paceline.outcome.results import Result
from tests.engine.fakes import SPEC, Stage, begun
from tests.made_runs import made

KILLED = "killed by signal 9 (SIGKILL)"
SPEC_AGAIN = dataclasses.replace(SPEC, on_failure="restart")
AGAIN = NextAttempt(
    number=1,
    setback=Setback(index=0, time_s=20.0, moment_s=990.0),
    attempts=("first",),
    disturbances=(
        Disturbance(
            who="worker1", struck_s=20.0, known_s=20.0, started_s=21.0, lost_step=5, from_step=0
        ),
    ),
    origin=None,
)


def test_a_loss_is_noted_for_whoever_starts_all_again(tmp_path: Path):
    stage = begun(tmp_path, spec=SPEC_AGAIN)
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    assert stage.outcome.reason == f"worker1: {KILLED}"
    assert stage.outcome.setback is not None
    (noted,) = stage.outcome.disturbances
    assert (noted.who, noted.reason) == ("worker1", KILLED)
    assert noted.known_s == stage.outcome.setback.time_s


def test_an_error_of_a_worker_starts_nothing_again(tmp_path: Path):
    stage = begun(tmp_path, spec=SPEC_AGAIN)
    stage.seats["worker1"].fail()
    stage.play()
    stage.close()
    assert stage.outcome.reason == "worker1: ValueError: x"
    assert stage.outcome.setback is None


def test_who_stops_the_run_meanwhile_starts_nothing_again(tmp_path: Path):
    stage = begun(tmp_path, spec=SPEC_AGAIN)
    stage.seats["worker1"].leave(KILLED)
    stage.deliver()
    assert stage.outcome.setback is not None
    stage.conductor.interrupt()
    stage.play()
    stage.close()
    assert stage.outcome.setback is None


def test_a_run_stopped_by_its_user_is_not_started_again(tmp_path: Path):
    stage = begun(tmp_path, spec=SPEC_AGAIN)
    stage.conductor.interrupt()
    stage.seats["worker1"].leave(KILLED)
    stage.play()
    stage.close()
    assert stage.outcome.status == "interrupted"
    assert stage.outcome.setback is None


def test_before_the_first_start_a_loss_is_the_end_and_in_a_later_one_it_is_not(tmp_path: Path):
    for again in (None, AGAIN):
        stage = Stage(tmp_path, spec=SPEC_AGAIN, again=again)
        stage.seats["worker0"].leave(KILLED)
        stage.play()
        stage.close()
        assert (stage.outcome.setback is None) == (again is None)
        if again is not None:
            assert [each.who for each in stage.outcome.disturbances] == ["worker1", "worker0"]
            assert stage.outcome.disturbances[1].known_s == pytest.approx(30.0)


def test_the_training_clock_goes_on_while_all_are_started_again(tmp_path: Path):
    stage = begun(tmp_path, spec=SPEC_AGAIN, again=AGAIN)
    (noted,) = stage.outcome.disturbances
    assert noted.back_s == pytest.approx(30.0)  # 10 s have passed since the loss at 20 s
    assert noted.updated_s is None
    (start,) = {word.start_s for name in stage.seats for word in stage.told_to(name, words.Start)}
    assert stage.now.now_s - start == pytest.approx(30.0)
    stage.close()


def lost_run(folder: Path) -> Result:
    """Of a run that a loss ended after 7 steps."""
    noted = Disturbance(
        who="worker0", fault="kill:worker0@step=7", struck_s=2.0, known_s=2.1, updated_s=2.2
    )
    return made(folder, status="failed", global_steps=7, disturbances=(noted,)).result


def test_without_a_checkpoint_it_begins_anew_and_says_so(tmp_path: Path):
    setback = Setback(index=0, time_s=2.1, moment_s=time.monotonic())
    first, second = lost_run(tmp_path), lost_run(tmp_path)
    again = NextAttempt.after(first, setback, None, dilation=1.0)
    assert again.origin is None
    assert "has no checkpoint" in again.notes[0]
    name = Path(first.run).name
    assert again.facts() == {"parent": name, "parent_step": 0, "attempts": (name,)}
    (noted,) = again.disturbances
    assert (noted.lost_step, noted.from_step, noted.repeated_steps) == (7, 0, 7)
    assert noted.updated_s is None
    assert noted.started_s is not None
    faults = [Fault.parse(each) for each in ("kill:worker0@step=7", "kill:worker0@step=9")]
    assert again.faults_left(faults) == faults[1:]
    after = NextAttempt.after(second, setback, again, dilation=1.0)
    assert (after.number, after.attempts) == (2, (name, Path(second.run).name))
