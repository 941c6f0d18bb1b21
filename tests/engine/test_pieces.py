"""What seats send of what they keep, as the conductor takes it."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.comm import words
from paceline.comm.words import Piece
from paceline.engine.departures import ReplacePolicy
from paceline.store.runs import RunDir
from paceline.strategies.parameter_server.describe import PsAsync
from tests.engine.fakes import SPEC, Stage
from tests.engine.test_silence import COMPUTES


def piece(what, text: str, start: int = 0, dropped: int = 0) -> Piece:
    data = base64.b64encode(text.encode()).decode()
    return Piece(what=what, start=start, data=data, dropped=dropped)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path)
    made.records.mkdir()
    made.logs.mkdir()
    return made


def begun(run: RunDir, **options) -> Stage:
    stage = Stage(run.path, **options)
    stage.play_until(lambda: all(each.state == "training" for each in stage.workers))
    return stage


def test_pieces_go_to_the_files_of_the_seat_that_sent_them(run: RunDir):
    stage = begun(run)
    for seat in stage.workers:
        seat.line.say(piece("rows", seat.name), piece("rows", "!", start=7))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    for name in ("worker0", "worker1"):
        assert run.seat_records(name).read_text() == f"{name}!"


def test_the_last_words_of_a_seat_that_died_are_in_its_log(run: RunDir):
    stage = begun(run)
    stage.workers[1].line.say(piece("log", "Traceback"))
    stage.workers[1].leave("killed by signal 9 (SIGKILL)")
    stage.play()
    stage.close()
    assert stage.outcome.reason == "worker1: killed by signal 9 (SIGKILL)"
    assert run.log_tail("worker1") == "Traceback"


def test_a_piece_that_is_not_kept_ends_the_run_and_names_the_seat(run: RunDir):
    stage = begun(run)
    stage.workers[1].line.say(piece("graph", "of worker1"))
    stage.play()
    stage.close()
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason.startswith(
        "worker1: what it sent of its graph was not kept: not its own"
    )
    assert stage.told_to("worker0", words.Abort)


def test_what_a_seat_dropped_is_a_warning_of_the_run(run: RunDir):
    stage = begun(run)
    stage.workers[0].line.say(piece("rows", "row", dropped=12))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    told = "worker0 dropped 12 entries of its rows: the driver did not take them in time"
    assert stage.outcome.warnings == [told]


def test_a_stack_that_is_printed_over_the_line_is_found_and_is_no_sign_that_the_worker_works(
    run: RunDir,
):
    stage = begun(run, workers=1, spec=SPEC)
    worker = stage.workers[0]
    stage.conductor.look_for_stuck(lambda _: None)
    stage.now.now_s += 61.0
    stage.conductor.look_for_stuck(lambda _: worker.line.say(piece("log", COMPUTES)))
    stage.deliver()
    stage.now.now_s += 1.1
    stage.conductor.look_for_stuck(lambda _: None)
    stage.close()
    (alert,) = stage.conductor.view().alerts
    assert alert.startswith("worker0 was silent for 62 s")
    assert "mine.py:7 in loss; its stack is in logs/worker0.log" in alert


def test_a_worker_that_is_started_again_sends_from_its_first_byte_on(run: RunDir):
    spec = replace(SPEC, strategy=PsAsync(), num_workers=2, on_failure="replace")
    stage = begun(run, servers=1, policy=ReplacePolicy(), spec=spec)
    killed = stage.workers[1]
    killed.line.say(piece("rows", "before "))
    killed.leave("killed by signal 9 (SIGKILL)")
    stage.play_until(lambda: stage.workers[1] is not killed)
    stage.workers[1].line.say(piece("rows", "again"))
    stage.play()
    stage.close()
    assert stage.outcome.status == "finished"
    assert run.seat_records("worker1").read_text() == "before again"
