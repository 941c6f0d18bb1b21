"""What every sink must do: keep all of it, in order, in the files that it belongs to."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from paceline.comm.roster import Seat
from paceline.errors import StoreError
from tests.sinks.desks import KINDS, WORKER, Desk, LineDesk

MakeDesk = Callable[[Seat], Desk]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeDesk]:
    made: list[Desk] = []

    def make(seat: Seat) -> Desk:
        made.append(KINDS[request.param](tmp_path, seat))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make: MakeDesk) -> Desk:
    return make(WORKER)


def row(number: int) -> bytes:
    return f'{{"number":{number}}}\n'.encode()


def test_what_is_appended_is_all_there_in_order_each_stream_by_itself(desk: Desk):
    random = Random(1)
    losses = [random.randbytes(4 * random.randrange(1000)) for _ in range(300)]
    with desk.reading():
        for number in range(300):
            desk.sink.append("rows", row(number))
            desk.sink.append("losses", losses[number])
            desk.sink.append("log", b"\xff\x00 no text \n")
        desk.sink.close()
    assert desk.run.seat_records("worker0").read_bytes() == b"".join(map(row, range(300)))
    assert desk.run.seat_losses("worker0").read_bytes() == b"".join(losses)
    assert desk.run.seat_log("worker0").read_bytes() == b"\xff\x00 no text \n" * 300


def test_a_stream_is_there_from_the_first_append_and_grows_before_the_end(desk: Desk):
    with desk.reading():
        desk.sink.append("rows", b"")
    assert desk.run.seat_records("worker0").read_bytes() == b""
    with desk.reading():
        desk.sink.append("rows", row(1))
    assert desk.run.seat_records("worker0").read_bytes() == row(1)


def test_what_is_longer_than_a_word_arrives_whole(desk: Desk):
    data = Random(2).randbytes(700_001)
    with desk.reading():
        desk.sink.append("log", data)
        desk.sink.close()
    assert desk.run.seat_log("worker0").read_bytes() == data


def test_several_threads_may_append_and_no_row_is_torn(desk: Desk):
    def append(stream: str, mark: bytes) -> None:
        for _ in range(200):
            desk.sink.append(stream, mark * 50 + b"\n")

    arguments = [("rows", b"a"), ("rows", b"b"), ("log", b"c")]
    threads = [threading.Thread(target=append, args=each) for each in arguments]
    with desk.reading():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        desk.sink.close()
    lines = desk.run.seat_records("worker0").read_bytes().splitlines()
    assert sorted(lines) == [b"a" * 50] * 200 + [b"b" * 50] * 200
    assert desk.run.seat_log("worker0").read_bytes() == (b"c" * 50 + b"\n") * 200


@pytest.mark.parametrize("num_bytes", [0, 1, 65_535, 65_536, 65_537, 64_000_000], ids=str)
def test_a_file_arrives_as_it_was_made(desk: Desk, num_bytes: int):
    data = Random(3).randbytes(num_bytes)
    with desk.reading():
        desk.sink.put("model", lambda path: path.write_bytes(data))
    assert desk.run.model.read_bytes() == data
    assert {each.name for each in desk.run.path.iterdir()} == {
        *("records", "logs", "model.safetensors")
    }


def test_a_file_that_is_put_again_takes_the_place_of_the_one_before(desk: Desk):
    with desk.reading():
        for text in ("long ago", "now"):
            desk.sink.put("graph", lambda path, text=text: path.write_text(text))
    assert desk.run.seat_records("graph").read_text() == "now"


def test_a_file_that_could_not_be_made_is_not_there(desk: Desk):
    def write(path: Path) -> None:
        path.write_text("the first half")
        raise ValueError("and no more")

    with pytest.raises(ValueError, match="and no more"), desk.reading():
        desk.sink.put("model", write)
    assert {each.name for each in desk.run.path.iterdir()} == {"records", "logs"}


def test_each_seat_has_files_of_its_own(make: MakeDesk):
    desk = make(Seat("server", 1, "node1"))
    with desk.reading():
        desk.sink.put("trace", lambda path: path.write_text("{}"))
        desk.sink.put("operators", lambda path: path.write_text("[]"))
        desk.sink.append("log", b"served\n")
    assert desk.run.seat_trace("server1").read_text() == "{}"
    assert desk.run.read_operators("server1") == []
    assert desk.run.log_tail("server1") == "served"


def test_a_monitors_rows_are_its_nodes(make: MakeDesk):
    desk = make(Seat("monitor", 2, "node5"))
    with desk.reading():
        desk.sink.append("rows", row(1))
    assert desk.run.seat_records("node5").read_bytes() == row(1)


def test_a_folder_that_was_removed_is_told_of(desk: Desk):
    desk.sink.append("rows", row(1))
    shutil.rmtree(desk.run.path)
    reason = f"{desk.run.path} was removed while the run went on"
    if isinstance(desk, LineDesk):
        with desk.reading():
            desk.sink.check()
        ((name, told),) = desk.failures
        assert (name, reason in told) == ("worker0", True)
    else:
        with pytest.raises(StoreError, match=reason):
            desk.sink.check()


def test_it_can_be_closed_twice(desk: Desk):
    desk.sink.append("rows", row(1))
    with desk.reading():
        desk.sink.close()
        desk.sink.close()
    assert desk.run.seat_records("worker0").read_bytes() == row(1)
