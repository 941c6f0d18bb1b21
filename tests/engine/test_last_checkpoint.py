"""A run that ends for want of workers keeps what is left first, whatever comes between."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.comm import words
from paceline.engine.departures import GoOnPolicy, ReplacePolicy
from paceline.store.checkpoints import folders, opened
from tests.engine.fakes import APART, InStep, Stage, begun

KILLED = "killed by signal 9 (SIGKILL)"
TOO_FEW = f"worker1: {KILLED}; 2 of at least 3 workers are left (min_workers)"
NO_EVALUATION = replace(APART, eval_every=None)


def short_of_workers(folder: Path, **options: Any) -> Stage:
    """Three workers and a server, of which one worker dies, and three are needed."""
    usual: dict[str, Any] = {"workers": 3, "servers": 1, "gates": 0, "spec": NO_EVALUATION}
    stage = begun(folder, policy=GoOnPolicy(min_workers=3), **{**usual, **options})
    stage.seats["worker1"].leave(KILLED)
    return stage


def test_all_that_are_left_are_kept_and_then_the_run_ends(tmp_path: Path):
    stage = short_of_workers(tmp_path)
    stage.play()
    stage.close()
    assert (stage.outcome.status, stage.outcome.reason) == ("failed", TOO_FEW)
    (folder,) = folders(stage.run_dir)
    manifest = opened(folder).manifest
    assert sorted(manifest.seats) == ["server0", "worker0", "worker2"]
    assert (manifest.num_workers, manifest.progress) == (2, 10)
    assert stage.outcome.warnings == []
    assert not stage.told_to("worker0", words.Resume)  # nobody trains any further


def test_who_rests_for_an_evaluation_meanwhile_is_evaluated_and_kept(tmp_path: Path):
    stage = short_of_workers(tmp_path, gates=1, spec=APART)
    stage.play()
    stage.close()
    (folder,) = folders(stage.run_dir)
    assert [row["progress"] for row in opened(folder).manifest.evaluations] == [10]


def test_a_rest_that_one_has_passed_is_asked_for_again_further_ahead(tmp_path: Path):
    stage = short_of_workers(tmp_path, servers=0, spec=replace(NO_EVALUATION, strategy=InStep()))
    stage.deliver()
    stage.deliver()
    first, last = stage.seats["worker0"], stage.seats["worker2"]
    last.gates_left = 0  # it is past it, and cannot end its step without the other
    first.act()
    stage.deliver()
    assert not stage.told_to("worker0", words.Resume)
    stage.now.now_s += 30.0
    stage.deliver()
    _, again = stage.told_to("worker2", words.RestAt)
    (resumed,) = stage.told_to("worker0", words.Resume)
    assert again.progress == resumed.rest_at
    first.gates_left = 1  # as it was told
    stage.play()
    stage.close()
    assert stage.outcome.reason == TOO_FEW
    assert len(folders(stage.run_dir)) == 1


def test_who_does_not_rest_in_time_is_not_waited_for(tmp_path: Path):
    stage = short_of_workers(tmp_path)
    for _ in range(100):
        stage.deliver()
        stage.now.now_s += 1.0
    stage.play()
    stage.close()
    assert stage.outcome.reason == TOO_FEW
    assert folders(stage.run_dir) == []
    (warning,) = stage.outcome.warnings
    assert warning.startswith("no checkpoint was made at the end: the workers that are left did")


def test_what_cannot_be_kept_ends_at_once(tmp_path: Path):
    replayed = {"workload": "alexnet-cifar10", "device": "replay:k80", "steps": 20}
    made = type(APART).from_table(replayed)
    stage = short_of_workers(tmp_path, spec=replace(made, strategy=APART.strategy, num_workers=3))
    stage.deliver()
    stage.deliver()
    assert stage.seats["worker0"].is_aborted
    stage.close()


@pytest.mark.parametrize("name", ["worker0", "worker2", "server0"])
@pytest.mark.parametrize("spec", [APART, NO_EVALUATION], ids=["evaluated", "not evaluated"])
@pytest.mark.parametrize("policy", [GoOnPolicy(3), ReplacePolicy(3, 3)], ids=["go on", "replace"])
def test_whoever_else_is_lost_at_any_moment_the_first_cause_stays(
    name: str, spec: Any, policy: Any, tmp_path: Path
):
    for moment in range(30):
        folder = tmp_path / str(moment)
        folder.mkdir()
        stage = short_of_workers(folder, gates=1, spec=spec)
        for _ in range(moment):
            stage.deliver()
            if acting := stage.acting():
                acting[moment % len(acting)].act()
        if stage.seats[name].is_here:
            stage.seats[name].leave(KILLED)
        stage.play()
        stage.close()
        assert stage.outcome.reason == TOO_FEW
        for kept in folders(stage.run_dir):
            opened(kept)


def test_a_user_who_stops_the_run_meanwhile_does_not_wait(tmp_path: Path):
    stage = short_of_workers(tmp_path)
    stage.deliver()
    stage.deliver()
    stage.conductor.interrupt()
    stage.play()
    stage.close()
    assert stage.outcome.status == "interrupted"
