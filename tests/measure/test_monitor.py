"""A node's monitor, watching a real process over a real line."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from paceline.comm.line import Line
from paceline.comm.meter import Carried, Meter
from paceline.comm.monitor_words import Enter, Noted, Observe, Sampled
from paceline.comm.roster import Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.vocabularies import FROM_DRIVER, FROM_MONITORS
from paceline.comm.words import Answered, Finish, Joined
from paceline.errors import Aborted
from paceline.measure.monitor import watch_node
from paceline.sinks.folder import FolderSink
from paceline.store.runs import RunDir
from tests.comm.calls import connected
from tests.comm.lines import line_of_a_seat

INTERVAL_S = 0.02
Row = dict[str, Any]


class Watched:
    """The driver's end of a monitor that runs beside the test."""

    def __init__(
        self, folder: Path, meter: Meter | None = None, ends: tuple[Line, SeatLine] | None = None
    ) -> None:
        self.line, self.seat = ends or line_of_a_seat(FROM_MONITORS)
        run = RunDir(folder)
        run.records.mkdir()
        self.rows = run.seat_records("node0")
        self.sink = FolderSink(run, Seat("monitor", 0, "node0"))
        self.meter = meter
        self.heard: list[Row] = []
        self.noted: list[str] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        try:
            watch_node(self.seat, self.sink, INTERVAL_S, self.meter)
        except BaseException as error:
            self.error = error
        self.sink.close()
        self.seat.close()

    def until(self, wanted: Callable[[Row], bool]) -> Row:
        while True:
            word = self.line.receive()
            if isinstance(word, Noted):
                self.noted.append(word.phase)
                continue
            assert isinstance(word, Sampled)
            row = json.loads(json.dumps(asdict(word.sample)))  # as it is kept
            self.heard.append(row)
            if wanted(row):
                return row

    def finish(self) -> list[Row]:
        self.line.send(Finish())
        self.thread.join()
        return [json.loads(line) for line in self.rows.read_text().splitlines()]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.line.close()
    made.thread.join()


@pytest.fixture
def busy() -> Iterator[int]:
    code = "kept = bytearray(50_000_000)\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_what_a_busy_process_uses_is_seen_by_phase(watched: Watched, busy: int):
    assert watched.line.receive() == Joined()
    watched.line.send(Observe({"worker0": busy}))
    row = watched.until(lambda row: row["phase"] == "starting")
    assert row["time_s"] == 0.0
    watched.line.send(Enter(phase="training", moment_s=time.monotonic(), start_s=time.monotonic()))
    row = watched.until(lambda row: row["phase"] == "training" and row["cpu_percent"] > 10)
    assert row["time_s"] > 0
    assert 50_000_000 < row["memory_bytes"] < 200_000_000
    watched.line.send(Enter(phase="evaluating", moment_s=time.monotonic()))
    watched.until(lambda row: row["phase"] == "evaluating")
    watched.line.send(Enter(phase="ending", moment_s=time.monotonic()))
    rows = watched.finish()
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    assert phases[:3] == ["starting", "training", "evaluating"]
    assert all(row in rows for row in watched.heard)  # what is offered is what is kept


def test_its_clock_is_the_training_clock(watched: Watched):
    watched.line.receive()
    watched.line.send(Observe({"worker0": os.getpid()}))
    watched.line.send(
        Enter(phase="training", moment_s=time.monotonic(), start_s=time.monotonic() - 1000)
    )
    assert watched.until(lambda row: row["phase"] == "training")["time_s"] >= 1000
    now_s = time.monotonic()
    watched.line.send(Enter(phase="evaluating", moment_s=now_s - 600))
    assert 400 <= watched.until(lambda row: row["phase"] == "evaluating")["time_s"] <= 500
    watched.line.send(Enter(phase="training", moment_s=time.monotonic()))
    row = watched.until(lambda row: row["time_s"] < 1000 and row["phase"] == "training")
    assert row["time_s"] >= 400
    watched.finish()


def test_on_a_machine_with_another_clock_it_reads_the_drivers(tmp_path: Path):
    def clock() -> float:
        return time.monotonic() + 1000

    with connected(hears=FROM_DRIVER, says=FROM_MONITORS, clock=clock) as (line, seat):
        watched = Watched(tmp_path, ends=(line, SeatLine(seat)))
        watched.line.receive()
        watched.line.send(Observe({"worker0": os.getpid()}))
        start_s = time.monotonic()
        watched.line.send(Enter(phase="training", moment_s=start_s, start_s=start_s))
        row = watched.until(lambda row: row["phase"] == "training")
        off_s = seat.offset.uncertainty_s
        assert -off_s <= row["time_s"] <= time.monotonic() - start_s + off_s
        watched.finish()


def test_a_process_that_ends_is_no_error(watched: Watched):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        watched.line.receive()
        watched.line.send(Observe({"worker0": process.pid}))
        watched.until(lambda row: row["memory_bytes"] > 0)
        process.kill()
        process.wait()
        num_heard = len(watched.rows.read_text().splitlines())
        while len(watched.rows.read_text().splitlines()) < num_heard + 2:
            time.sleep(0.01)
    assert watched.finish()[-1]["memory_bytes"] is None  # not 0: it is gone
    assert watched.error is None


def test_a_training_that_is_over_at_once_has_a_sample_of_its_start_and_of_its_end(
    watched: Watched, busy: int
):
    watched.line.receive()
    watched.line.send(Observe({"worker0": busy}))
    began_s = time.monotonic()
    watched.line.send(Enter(phase="training", moment_s=began_s, start_s=began_s))
    watched.line.send(Enter(phase="saving", moment_s=began_s + 0.001))
    start, end = [row for row in watched.finish() if row["time_s"] in (0.0, 0.001)][:2]
    assert (start["phase"], end["phase"]) == ("starting", "training")
    assert start["memory_bytes"] > 50_000_000
    assert end["memory_bytes"] > 50_000_000
    assert end["cpu_percent"] is None  # ticks of 10 ms tell nothing of a millisecond


def test_a_driver_that_does_not_read_does_not_hold_it_up(watched: Watched):
    watched.line.receive()
    watched.line.send(Observe({"worker0": os.getpid()}))
    assert watched.line.receive() == Noted("starting")
    for _ in range(5000):  # far more than the line holds
        watched.seat.offer(Answered("x" * 1000))
    while not (watched.rows.exists() and watched.rows.stat().st_size):
        time.sleep(0.01)
    assert len(watched.finish()) >= 1
    assert watched.error is None


@pytest.mark.parametrize("is_watching", [False, True])
def test_it_ends_when_the_driver_is_gone(watched: Watched, is_watching: bool):
    watched.line.receive()
    if is_watching:
        watched.line.send(Observe({"worker0": os.getpid()}))
        watched.until(lambda _: True)
    watched.line.close()
    watched.thread.join()
    assert isinstance(watched.error, Aborted)


def test_a_seat_is_seen_by_itself(watched: Watched, busy: int):
    watched.line.receive()
    watched.line.send(Observe({"worker0": busy, "server0": os.getpid()}))
    row = watched.until(lambda row: row["cpu_percent"] > 10)
    worker, server = row["seats"]
    assert (worker["seat"], server["seat"]) == ("worker0", "server0")
    together = worker["cpu_percent"] + server["cpu_percent"]
    assert together == pytest.approx(row["cpu_percent"])
    assert worker["cpu_percent"] > 0
    watched.finish()


def test_a_link_is_read_while_workers_train_and_not_while_they_evaluate(tmp_path: Path):
    """Of a link that carries a byte more each time somebody looks, nothing else can be told."""
    carried = Carried()

    def meter() -> Carried:
        return carried

    watched = Watched(tmp_path, meter)

    def enter(phase: str, **fields: float) -> None:
        watched.line.send(Enter(phase=phase, moment_s=time.monotonic(), **fields))
        while phase not in watched.noted:
            watched.until(lambda _: True)

    watched.line.receive()
    carried = Carried(100, 100, 1, 1)  # before training: parameters were spread
    watched.line.send(Observe({"worker0": os.getpid()}))
    watched.until(lambda row: row["net_sent_bytes"] == 0)
    assert watched.noted == ["starting"]
    carried = Carried(1100, 2100, 11, 21)  # a worker was quicker than the monitor
    enter("training", start_s=time.monotonic())
    carried = Carried(1200, 2200, 12, 22)
    row = watched.until(lambda row: row["phase"] == "training")
    assert (row["net_sent_bytes"], row["net_received_bytes"]) == (1100, 2100)
    enter("evaluating")
    carried = Carried(9200, 9200, 92, 92)
    row = watched.until(lambda row: row["phase"] == "evaluating")
    assert (row["packets_sent"], row["packets_received"]) == (11, 21)
    watched.noted.clear()
    enter("training")
    carried = Carried(9300, 9400, 93, 94)
    watched.until(lambda row: row["net_sent_bytes"] == 1200)
    last = watched.finish()[-1]
    assert (last["net_sent_bytes"], last["net_received_bytes"]) == (1200, 2300)
    watched.line.close()
