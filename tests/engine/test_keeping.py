"""Checkpoints as the driver has them made: workers copy before servers, all or nothing counts."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from paceline.comm import words
from paceline.engine.departures import GoOnPolicy, ReplacePolicy
from paceline.store.checkpoints import folders, opened
from tests.engine.fakes import SPEC, Stage, begun
from tests.engine.test_departures import APART

KEEPS = replace(SPEC, checkpoint_every=10)
KILLED = "killed by signal 9 (SIGKILL)"


def keeps(stage: Stage) -> list[str]:
    """Who was asked to copy, in order."""
    return [name for name, word in stage.told if isinstance(word, words.Keep)]


def test_workers_copy_then_servers_and_all_go_on_before_anything_is_written(tmp_path: Path):
    stage = begun(tmp_path, servers=1, spec=replace(KEEPS, eval_every=None))
    stage.play_until(lambda: keeps(stage) == ["worker0", "worker1"])
    for each in stage.workers:
        each.act()
    stage.deliver()
    assert keeps(stage) == ["worker0", "worker1", "server0"]
    assert not stage.told_to("worker0", words.Resume)
    stage.seats["server0"].act()
    stage.deliver()
    assert len(stage.told_to("worker0", words.Resume)) == 1
    assert folders(stage.run_dir) == []
    stage.play()
    stage.close()
    (folder,) = folders(stage.run_dir)
    kept = opened(folder).manifest
    assert (kept.progress, kept.first, sorted(kept.seats)) == (
        10,
        "worker0",
        ["server0", "worker0", "worker1"],
    )


def test_an_evaluation_that_is_due_at_the_same_step_is_part_of_the_checkpoint(tmp_path: Path):
    stage = begun(tmp_path, spec=KEEPS)
    stage.play()
    stage.close()
    (folder,) = folders(stage.run_dir)
    manifest = opened(folder).manifest
    assert [row["progress"] for row in manifest.evaluations] == [10]
    assert manifest.next_evaluation == 20


def test_the_first_worker_alone_keeps_what_is_alike(tmp_path: Path):
    stage = begun(tmp_path, workers=3, spec=KEEPS)
    stage.play()
    stage.close()
    firsts = [stage.told_to(f"worker{index}", words.Keep)[0].is_first for index in range(3)]
    assert firsts == [True, False, False]


def test_clocks_leave_out_an_evaluation_before_they_are_copied(tmp_path: Path):
    stage = begun(tmp_path, spec=KEEPS)
    stage.play_until(lambda: stage.workers[0].errand == words.Evaluate())
    stage.now.now_s += 7.0
    stage.play_until(lambda: bool(stage.told_to("worker0", words.Resume)))
    stage.close()
    (keep,) = stage.told_to("worker1", words.Keep)
    (resume,) = stage.told_to("worker1", words.Resume)
    assert (keep.paused_s, resume.paused_s) == (7.0, 0.0)


@pytest.mark.parametrize("policy", [GoOnPolicy(), ReplacePolicy()], ids=["go on", "replace"])
def test_whoever_is_lost_at_any_moment_nobody_waits_and_no_half_checkpoint_is_there(
    policy, tmp_path: Path
):
    num_dropped = 0
    for moment in count():
        folder = tmp_path / str(moment)
        (folder / "records").mkdir(parents=True)
        stage = begun(folder, workers=3, servers=1, policy=policy, spec=_apart())
        victim = stage.seats["worker1"]
        for _ in range(moment):
            acting = stage.acting()
            if not acting or victim.state == "attending":
                break
            acting[0].act()
            stage.deliver()
        if victim.state == "attending" or not victim.is_here:
            stage.close()
            break
        victim.leave(KILLED)
        stage.play()
        assert stage.outcome.status == "finished", stage.outcome.reason
        for each in folders(stage.run_dir):
            opened(each)
        num_dropped += any("no checkpoint at" in text for text in stage.outcome.warnings)
        stage.close()
    assert moment > 5
    assert num_dropped >= 1


def _apart():
    return replace(APART, checkpoint_every=10, eval_every=None)


def test_a_seat_that_cannot_write_costs_a_checkpoint_and_not_the_run(tmp_path: Path):
    stage = begun(tmp_path, spec=KEEPS)
    stage.play_until(lambda: stage.workers[1].unwritten is not None)
    stage.workers[1].unwritten = None
    stage.workers[1].line.say(words.Kept(what="state", problem="no space left"))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    said = "no checkpoint at 10: worker1 could not write its state: no space left"
    assert said in stage.outcome.warnings
    assert folders(stage.run_dir) == []


def test_one_that_is_due_while_the_last_is_written_is_left_out(tmp_path: Path):
    stage = begun(tmp_path, gates=2, spec=replace(KEEPS, eval_every=None))
    slow = stage.workers[1]
    stage.play_until(lambda: slow.unwritten is not None)
    slow.unwritten = None
    stage.play()
    stage.close()
    assert any("was still being written" in text for text in stage.outcome.warnings)


def test_what_nobody_asked_for_is_the_failure_of_who_says_it(tmp_path: Path):
    for word in (words.Copied("state"), words.Kept(what="state")):
        stage = begun(tmp_path, spec=KEEPS)
        stage.workers[0].line.say(word)
        stage.play()
        stage.close()
        assert stage.outcome.status == "failed"
        assert "out of turn" in (stage.outcome.reason or "")
