"""A sink over a line: a driver that does not read holds nobody up, and what is lost is told of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import Aborted, StoreError
from tests.sinks.desks import WORKER, LineDesk

ROW = b"x" * 999 + b"\n"
MOST_WAITING = 100_000


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LineDesk]:
    made = LineDesk(tmp_path, WORKER, most_waiting_bytes=MOST_WAITING, closing_s=60)
    yield made
    made.close()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[LineDesk]:
    made = LineDesk(tmp_path, WORKER, patience_s=0.05, closing_s=0.05)
    yield made
    made.close()


def append_all(desk: LineDesk, what: str, num_rows: int) -> None:
    for _ in range(num_rows):
        desk.sink.append(what, ROW)


def test_a_driver_that_does_not_read_holds_nobody_up_and_what_is_dropped_is_counted(
    desk: LineDesk,
):
    num_rows = 5000  # 5 MB: more than the line and what may wait together
    append_all(desk, "rows", num_rows)
    with desk.reading():
        desk.sink.close()
    kept = desk.run.seat_records("worker0").read_bytes()
    num_kept = len(kept) // len(ROW)
    assert kept == ROW * num_kept
    assert MOST_WAITING // len(ROW) <= num_kept < num_rows
    (warning,) = desk.warnings
    told = f"worker0 dropped {num_rows - num_kept:,} entries of its rows: "
    assert warning == f"{told}the driver did not take them in time"
    assert desk.failures == []


def test_what_waits_is_sent_with_what_comes_later(desk: LineDesk):
    num_rows = 0
    while not desk.sink._waiting:
        append_all(desk, "rows", 1)
        num_rows += 1
    desk.read()
    append_all(desk, "rows", 1)
    desk.read()
    assert desk.run.seat_records("worker0").read_bytes() == ROW * (num_rows + 1)
    assert desk.warnings == []


def test_one_stream_that_is_full_leaves_room_for_another(desk: LineDesk):
    append_all(desk, "log", 2000)
    append_all(desk, "rows", 50)
    with desk.reading():
        desk.sink.close()
    assert desk.run.seat_records("worker0").read_bytes() == ROW * 50
    (warning,) = desk.warnings
    assert "of its log" in warning


def test_losses_end_at_the_first_that_is_dropped(desk: LineDesk):
    append_all(desk, "losses", 2000)
    desk.read()
    desk.sink.offer_waiting()  # there is room again
    desk.sink.append("losses", b"late")
    desk.sink.append("rows", b"row\n")
    with desk.reading():
        desk.sink.close()
    kept = desk.run.seat_losses("worker0").read_bytes()
    num_kept = len(kept) // len(ROW)
    assert kept == ROW * num_kept
    assert desk.run.seat_records("worker0").read_bytes() == b"row\n"
    (warning,) = desk.warnings
    assert warning.startswith(f"worker0 dropped {2001 - num_kept:,} entries of its losses")


def test_a_file_that_nobody_reads_is_given_up_and_the_cause_is_named(impatient: LineDesk):
    with pytest.raises(StoreError, match=r"the driver took nothing of the model for 0\.05 s"):
        impatient.sink.put("model", lambda path: path.write_bytes(bytes(1 << 20)))


def test_closing_does_not_wait_for_ever(impatient: LineDesk):
    append_all(impatient, "rows", 500)
    impatient.sink.close()
    impatient.sink.append("rows", b"later\n")
    impatient.read()
    assert b"later" not in impatient.run.seat_records("worker0").read_bytes()


def test_a_driver_that_is_gone_ends_the_seat_as_on_any_other_occasion(desk: LineDesk):
    desk.line.close()
    with pytest.raises(Aborted, match="the driver is gone"):
        desk.sink.append("rows", ROW)
    with pytest.raises(Aborted, match="the driver is gone"):
        desk.sink.put("model", lambda path: path.write_text("x"))
    desk.sink.close()
