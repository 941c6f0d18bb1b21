"""A seat that says what it cannot say, or not now, fails by its name; the driver never does."""

from pathlib import Path

import pytest

from paceline.comm import vocabularies, words
from paceline.comm.words import Word
from paceline.spec import RunSpec
from tests.comm.rows import ROW
from tests.engine.fakes import Stage, begun, totals


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def ended_by(stage: Stage, name: str, *said: Word) -> str:
    """How a run ends in which a seat says something."""
    stage.seats[name].line.say(*said)
    stage.deliver()
    stage.play()
    stage.close()
    assert stage.outcome.status == "failed"
    assert stage.conductor.failed_seat == name
    return stage.outcome.reason or ""


HERE = words.Here(pid=7)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([words.Joined()], "joined"),
        ([HERE, HERE], "here"),
        ([HERE, words.Joined(), words.Joined()], "joined"),
        ([words.Stepped(ROW)], "stepped"),
        ([HERE, words.Paused(1)], "paused"),
        ([HERE, words.Trained(totals())], "trained"),
        ([HERE, words.Joined(), words.Paused(1)], "paused"),
        ([HERE, words.Joined(), words.Evaluated({})], "evaluated"),
    ],
)
def test_before_the_start_each_says_that_it_is_here_and_has_joined_once(
    said: list[Word], kind: str, folder: Path
):
    reason = ended_by(Stage(folder), "worker1", *said)
    assert reason == f"worker1: it said '{kind}' out of turn"


@pytest.mark.parametrize(
    "word", [HERE, words.Joined(), words.Settled(), words.Saved(), words.Evaluated({"loss": 1.0})]
)
def test_while_it_trains_nobody_was_asked_for_anything(word: Word, folder: Path):
    stage = begun(folder)
    reason = ended_by(stage, "worker1", word)
    assert reason == f"worker1: it said '{vocabularies.kind_of(type(word))}' out of turn"
    assert stage.outcome.evaluations == []


def test_only_the_one_that_was_asked_evaluates_and_saves(folder: Path):
    for errand, answer in (
        (words.Evaluate, words.Evaluated({"loss": 9.0})),
        (words.Save, words.Saved()),
    ):
        for name in ("worker1", "worker0"):
            stage = begun(folder, gates=1 if errand is words.Evaluate else 0)
            first = stage.workers[0]
            stage.play_until(lambda: isinstance(first.errand, errand))  # noqa: B023 - at once
            other = words.Saved() if errand is words.Evaluate else words.Evaluated({"loss": 9.0})
            said = answer if name == "worker1" else other
            assert "out of turn" in ended_by(stage, name, said)
            assert stage.outcome.evaluations == []


def test_who_rests_or_has_trained_does_neither_again(folder: Path):
    for gates in (1, 0):
        for word in (words.Paused(10), words.Trained(totals())):
            stage = begun(folder, gates=gates)
            stage.workers[0].act()
            stage.deliver()
            assert "out of turn" in ended_by(stage, "worker0", word)


@pytest.mark.parametrize("name", ["../secret", "worker7", "", "the run"])
def test_who_says_that_it_lost_what_is_no_seat_is_the_cause_itself(name: str, folder: Path):
    reason = ended_by(begun(folder), "worker1", words.Lost(name, "gone"))
    assert reason == f"worker1: it said that it lost {name!r}, which is no seat of this run"


def test_what_cannot_be_used_is_the_failure_of_who_said_it(folder: Path):
    table = {"workload": "logistic-mnist", "steps": 100, "eval_every": 10, "target_loss": 2.0}
    stage = begun(folder, spec=RunSpec.from_table(table))
    stage.play_until(lambda: isinstance(stage.workers[0].errand, words.Evaluate))
    stage.workers[0].errand = None
    reason = ended_by(stage, "worker0", words.Evaluated({"loss": "low"}))
    assert reason.startswith("worker0: it said 'evaluated' with what cannot be used (TypeError: ")
