"""Workers that come while others train in step: nobody waits for ever, whatever comes between."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.comm import words
from paceline.engine.departures import ReplacePolicy
from tests.engine.fakes import APART, InStep, Stage, begun

KILLED = "killed by signal 9 (SIGKILL)"
TOGETHER = replace(APART, strategy=InStep())


def together(folder: Path, **options: Any) -> Stage:
    """Three workers that train in step, and rest at one gate."""
    return begun(folder, **{"workers": 3, "policy": ReplacePolicy(), "spec": TOGETHER, **options})


def come_again(stage: Stage, *names: str) -> None:
    """Have workers killed at once, and start again until each waits to be let in, or enters."""
    for name in names:
        stage.seats[name].leave(KILLED)
    stage.deliver()
    stage.deliver()
    for name in names:
        for _ in range(2):
            stage.seats[name].act()
            stage.deliver()


def act(stage: Stage, *names: str) -> None:
    for name in names:
        stage.seats[name].act()
        stage.deliver()


def is_let_in(stage: Stage, name: str) -> bool:
    return any(each.is_late for each in stage.told_to(name, words.Start))


def test_who_joins_while_another_enters_is_let_in_at_once(tmp_path: Path):
    stage = together(tmp_path, gates=0)
    come_again(stage, "worker1", "worker2")
    assert is_let_in(stage, "worker1")
    assert is_let_in(stage, "worker2")
    act(stage, "worker1", "worker2")
    stage.play()
    stage.close()
    assert stage.outcome.totals.keys() == {"worker0", "worker1", "worker2"}


def test_who_joined_while_all_rested_is_let_in_when_another_that_ends_made_it_wait(tmp_path: Path):
    stage = together(tmp_path, gates=0)
    come_again(stage, "worker1")
    act(stage, "worker0")  # has trained, while worker1 enters and worker2 trains on
    come_again(stage, "worker2")
    assert not is_let_in(stage, "worker2")  # those in step come to their end
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_who_waits_is_let_in_when_the_one_it_waited_for_is_gone(tmp_path: Path):
    stage = together(tmp_path, gates=0)
    act(stage, "worker0")  # has trained: nobody is let in
    come_again(stage, "worker1")
    assert not is_let_in(stage, "worker1")
    stage.seats["worker0"].leave(KILLED)
    stage.deliver()
    assert is_let_in(stage, "worker1")
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_with_servers_a_gate_waits_for_who_enters(tmp_path: Path):
    spec = replace(TOGETHER, checkpoint_every=10)
    stage = together(tmp_path, servers=1, spec=spec)
    come_again(stage, "worker1")
    stage.seats["worker1"].gates_left = 1
    act(stage, "worker0", "worker2")
    assert stage.conductor.view().phase == "training"
    act(stage, "worker1")  # it has entered, and may push before it rests
    assert stage.conductor.view().phase == "training"
    act(stage, "worker1")  # it rests
    assert stage.conductor.view().phase == "evaluating"
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.num_checkpoints) == ("finished", 1)


def test_with_servers_nobody_is_let_in_while_others_rest(tmp_path: Path):
    stage = together(tmp_path, servers=1)
    act(stage, "worker0")
    come_again(stage, "worker1")
    assert not is_let_in(stage, "worker1")
    act(stage, "worker2")
    stage.play_until(lambda: bool(stage.told_to("worker0", words.Resume)))
    assert is_let_in(stage, "worker1")
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_a_gate_does_not_wait_for_ever_for_who_enters(tmp_path: Path):
    stage = together(tmp_path, servers=1)
    come_again(stage, "worker1")
    act(stage, "worker0", "worker2")
    stage.now.now_s += 21.0
    stage.deliver()
    assert stage.conductor.view().phase == "evaluating"
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_without_servers_a_gate_does_not_wait_for_who_needs_those_that_rest(tmp_path: Path):
    stage = together(tmp_path)
    come_again(stage, "worker1")
    act(stage, "worker0", "worker2")
    assert stage.conductor.view().phase == "evaluating"
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"


def test_training_goes_on_without_a_checkpoint_that_a_seat_never_copies(tmp_path: Path):
    spec = replace(TOGETHER, eval_every=None, checkpoint_every=10)
    stage = together(tmp_path, servers=1, spec=spec)
    server = stage.seats["server0"]
    stage.play_until(lambda: server.errand is not None)
    stage.now.now_s += 61.0
    stage.deliver()
    assert "server0 had not copied its state after 60 s" in stage.outcome.warnings[-1]
    assert all(each.state == "training" for each in stage.workers)
    stage.play()  # in which the server copies after all
    stage.close()
    assert (stage.outcome.status, stage.outcome.num_checkpoints) == ("finished", 0)
