"""When all rest: who evaluates and saves, in which order, and what clocks leave out."""

from dataclasses import replace
from pathlib import Path

import pytest

import paceline
from paceline.comm import words
from paceline.spec import RunSpec
from tests.engine.fakes import SPEC, Stage, begun, totals

ASKED = (words.Save, words.Evaluate)


def errands(stage: Stage) -> list[tuple[str, str]]:
    """Who was asked for what, in order."""
    return [(name, type(word).__name__) for name, word in stage.told if isinstance(word, ASKED)]


def test_parameters_are_kept_before_they_are_evaluated_for_the_last_time(tmp_path: Path):
    stage = begun(tmp_path)
    stage.play()
    stage.close()
    assert errands(stage) == [
        ("worker0", "Evaluate"),
        ("worker0", "Save"),
        ("worker0", "Evaluate"),
    ]


def test_where_no_model_is_kept_nobody_saves(tmp_path: Path):
    stage = begun(tmp_path, gates=0, spec=replace(SPEC, record=paceline.Record(model=False)))
    stage.play()
    stage.close()
    assert errands(stage) == [("worker0", "Evaluate")]


REPLAYED = RunSpec.from_table({"workload": "alexnet-cifar10", "device": "replay:k80", "steps": 20})


def test_a_worker_that_ends_before_it_hears_of_a_failure_does_not_finish_the_run(tmp_path: Path):
    stage = begun(tmp_path, gates=0, spec=REPLAYED)
    first, second = stage.workers
    first.act()
    stage.deliver()
    second.act()
    first.leave("killed by signal 9 (SIGKILL)")
    stage.hear_departures()
    stage.play()
    stage.close()
    assert stage.outcome.status == "failed"


def test_where_compute_is_replayed_nothing_is_kept_or_evaluated(tmp_path: Path):
    stage = begun(tmp_path, gates=0, spec=REPLAYED)
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert errands(stage) == []


def test_a_run_that_learnt_nothing_fails_and_keeps_nothing(tmp_path: Path):
    stage = begun(tmp_path, gates=0)
    for each in stage.workers:
        each.state = "attending"
        each.line.say(words.Trained(totals(final_loss=None)))
    stage.play()
    stage.close()
    assert stage.outcome.status == "failed"
    assert "no training loss" in (stage.outcome.reason or "")
    assert errands(stage) == []


def test_a_worker_that_has_ended_settles_with_those_that_rest_and_may_evaluate(tmp_path: Path):
    stage = begun(tmp_path)
    first, second = stage.workers
    first.gates_left = 0
    first.act()
    second.act()
    stage.deliver()
    assert (first.state, second.state) == ("attending", "resting")
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert [len(stage.told_to(each.name, words.Settle)) for each in stage.workers] == [3, 3]
    assert stage.told_to("worker0", words.Resume) == []


def test_a_target_that_is_reached_ends_training_and_is_not_evaluated_again(tmp_path: Path):
    table = {"workload": "logistic-mnist", "steps": 100, "eval_every": 10, "target_loss": 2.0}
    stage = begun(tmp_path, gates=5, spec=RunSpec.from_table(table))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    resume = words.Resume(paused_s=0.0, stop=True, rest_at=20)
    assert stage.told_to("worker1", words.Resume) == [resume]
    assert errands(stage) == [("worker0", "Evaluate"), ("worker0", "Save")]
    assert stage.outcome.seconds_to_target == stage.outcome.evaluations[0]["time_s"]


def test_every_clock_leaves_out_the_time_from_the_last_arrival_to_the_release(tmp_path: Path):
    stage = begun(tmp_path)
    first, second = stage.workers
    first.act()
    stage.now.now_s += 3.0  # the second still trains
    second.act()
    stage.deliver()
    stage.now.now_s += 20.0  # they settle and evaluate
    assert stage.conductor.view().time_s == pytest.approx(3.0)
    stage.play_until(lambda: first.state == second.state == "training")
    resume = words.Resume(paused_s=20.0, stop=False, rest_at=20)
    for name in ("worker0", "worker1"):
        assert stage.told_to(name, words.Resume) == [resume]
    assert stage.outcome.evaluations == [{"time_s": 3.0, "progress": 10, "loss": 1.0}]
    assert stage.outcome.evaluation_s == 20.0
    stage.now.now_s += 1.0
    assert stage.conductor.view().time_s == pytest.approx(4.0)
    stage.close()


def test_nobody_settles_before_every_monitor_has_noted_that_all_rest(tmp_path: Path):
    stage = begun(tmp_path, monitors=2)
    for each in stage.workers:
        each.act()
    stage.deliver()
    for each in (stage.seats["monitor0"], stage.seats["monitor1"]):
        assert stage.told_to("worker0", words.Settle) == []
        while each.notes:
            each.act()
        stage.deliver()
    assert stage.told_to("worker0", words.Settle) == [words.Settle(is_looked_at=True)]
    stage.play()
    stage.close()


def test_who_is_stopped_at_a_gate_ends_there_and_is_kept_but_not_evaluated_again(tmp_path: Path):
    stage = begun(tmp_path, gates=5)
    stage.play_until(lambda: isinstance(stage.workers[0].errand, words.Evaluate))
    stage.conductor.interrupt()
    stage.play()
    stage.close()
    assert stage.outcome.status == "interrupted"
    assert [word.stop for word in stage.told_to("worker1", words.Resume)] == [True]
    assert errands(stage) == [("worker0", "Evaluate"), ("worker0", "Save")]


def test_an_evaluation_that_comes_after_a_failure_is_kept_and_nobody_is_resumed(tmp_path: Path):
    stage = begun(tmp_path)
    stage.play_until(lambda: isinstance(stage.workers[0].errand, words.Evaluate))
    stage.workers[0].act()
    stage.workers[1].leave("killed by signal 9 (SIGKILL)")
    stage.hear_departures()
    stage.deliver()
    assert len(stage.outcome.evaluations) == 1
    assert stage.told_to("worker0", words.Resume) == []
    stage.close()
