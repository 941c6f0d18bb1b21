"""What comes over a line is kept only if it is the seat's own, the next, and whole."""

import base64
import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.comm.roster import Seat
from paceline.comm.words import Piece
from paceline.sinks import deliveries
from tests.sinks.desks import WORKER, LineDesk

DATA = b"some bytes"
PIECE = Piece(
    what="model",
    start=0,
    data=base64.b64encode(DATA).decode(),
    digest=hashlib.sha256(DATA).hexdigest(),
)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LineDesk]:
    made = LineDesk(tmp_path, WORKER)
    yield made
    made.close()


def files_of(desk: LineDesk) -> set[str]:
    return {each.name for each in desk.run.path.rglob("*") if each.is_file()}


def refused(desk: LineDesk, piece: Piece) -> str:
    desk.deliveries.take(desk.name, piece)
    ((name, reason),) = desk.failures
    assert name == desk.name
    return reason


def test_a_piece_that_is_whole_is_kept(desk: LineDesk):
    desk.deliveries.take("worker0", PIECE)
    assert desk.run.model.read_bytes() == DATA
    assert desk.failures == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"digest": "0" * 64}, "it arrived damaged: its checksum is another one"),
        ({"start": 5}, "a piece begins at byte 5, not at 0"),
        ({"start": -1}, "a piece begins at byte -1, not at 0"),
        ({"data": "no base64!"}, "base64"),
        ({"data": "AAA"}, "padding"),
        ({"what": "rows", "start": 7, "digest": None}, "a piece begins at byte 7, not at 0"),
    ],
    ids=str,
)
def test_a_damaged_piece_is_refused_and_told_of(desk: LineDesk, changes, reason: str):
    what = changes.get("what", "model")
    told = refused(desk, dataclasses.replace(PIECE, **changes))
    assert told.startswith(f"what it sent of its {what} was not kept: ")
    assert reason in told
    assert files_of(desk) == set()


@pytest.mark.parametrize(
    ("seat", "what"),
    [
        (Seat("worker", 1, "node0"), "graph"),
        (Seat("server", 0, "node0"), "rows"),
        (Seat("server", 0, "node0"), "model"),
        (Seat("monitor", 0, "node0"), "losses"),
        (Seat("monitor", 0, "node0"), "model"),
        (Seat("monitor", 0, "node0"), "trace"),
    ],
    ids=str,
)
def test_what_is_not_for_a_seat_to_keep_is_refused(tmp_path: Path, seat: Seat, what):
    desk = LineDesk(tmp_path, seat)
    told = refused(desk, dataclasses.replace(PIECE, what=what))
    assert f"of its {what} was not kept: not its own (its own: " in told
    assert files_of(desk) == set()
    desk.close()


@pytest.mark.parametrize("what", ["model", "rows"])
def test_there_is_a_limit_to_what_is_taken(desk: LineDesk, monkeypatch, what):
    monkeypatch.setattr(deliveries, "_MOST_BYTES", {what: 15})
    piece = dataclasses.replace(PIECE, what=what, digest=None)
    desk.deliveries.take("worker0", piece)
    assert "more than 15 bytes" in refused(desk, dataclasses.replace(piece, start=len(DATA)))


def test_after_a_refusal_no_more_of_it_is_taken_and_nothing_of_it_stays(desk: LineDesk):
    first = dataclasses.replace(PIECE, digest=None)
    desk.deliveries.take("worker0", first)
    refused(desk, dataclasses.replace(PIECE, start=3))
    assert files_of(desk) == set()
    desk.deliveries.take("worker0", first)
    desk.deliveries.take("worker0", PIECE)
    assert files_of(desk) == set()
    assert len(desk.failures) == 1
    desk.deliveries.take("worker0", dataclasses.replace(first, what="log"))
    assert desk.run.seat_log("worker0").read_bytes() == DATA


def test_a_place_that_cannot_be_written_is_told_of(desk: LineDesk):
    desk.run.seat_records("worker0").mkdir()
    assert "Is a directory" in refused(desk, dataclasses.replace(PIECE, what="rows", digest=None))


def test_a_link_in_the_place_of_a_stream_is_not_followed(desk: LineDesk, tmp_path: Path):
    desk.run.seat_log("worker0").symlink_to(tmp_path / "elsewhere")
    refused(desk, dataclasses.replace(PIECE, what="log", digest=None))
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_never_became_whole_is_removed_by_the_seal(desk: LineDesk):
    desk.deliveries.take("worker0", dataclasses.replace(PIECE, digest=None))
    assert len(files_of(desk)) == 1
    desk.run.seal({})
    assert files_of(desk) == {"result.json"}


def test_a_seat_that_drops_again_and_again_is_told_of_a_few_times(desk: LineDesk):
    for number in range(20):
        piece = Piece(what="rows", start=0, data="", dropped=number + 1)
        desk.deliveries.take("worker0", piece)
    assert len(desk.warnings) == 5


def test_a_seat_that_was_started_again_goes_on_in_the_same_files(desk: LineDesk):
    rows = dataclasses.replace(PIECE, what="rows", digest=None)
    desk.deliveries.take("worker0", rows)
    desk.deliveries.take("worker0", dataclasses.replace(PIECE, digest=None))  # half a model
    desk.deliveries.begin_again("worker0")
    desk.deliveries.take("worker0", rows)
    desk.deliveries.take("worker0", PIECE)
    assert desk.run.seat_records("worker0").read_bytes() == DATA * 2
    assert desk.run.model.read_bytes() == DATA
    assert desk.failures == []
