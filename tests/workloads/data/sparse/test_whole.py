"""Blocks that are parsed whole give the batches that rows parsed by themselves give."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.errors import DataError
from paceline.workloads.data.sparse import example_writer, tfrecord
from paceline.workloads.data.sparse.data import Batcher, RowStream
from paceline.workloads.data.sparse.examples import Examples, concatenated
from paceline.workloads.data.sparse.files import opened
from paceline.workloads.data.sparse.parsers import tf_examples
from paceline.workloads.data.sparse.reading import Judge
from paceline.workloads.data.stream import Stream
from paceline.workloads.order import Order

NUM_ROWS, NUM_FEATURES = 600, 1000


def framed(widths: list[int]) -> list[bytes]:
    generator = np.random.default_rng(5)
    return [
        b"".join(
            example_writer.framed(
                np.array([number % 2], np.float32),
                generator.integers(0, NUM_FEATURES, (1, width)).astype(np.uint32),
            )
        )
        for number, width in enumerate(widths)
    ]


def stream(folder: Path, records: list[bytes], *, bad_rows="skip") -> RowStream:
    path = folder / "rows.tfrecord"
    path.write_bytes(b"".join(records))
    files = opened(path, folder / "cache")
    return RowStream(
        files,
        len(records) - 7,  # the last block is cut
        parse=tf_examples(NUM_FEATURES),
        batcher=Batcher(torch.float32),
        judge=Judge(bad_rows),
        origin="made up",
    )


def batches(data: RowStream, num_workers: int = 1, rank: int = 0) -> Iterator[list[torch.Tensor]]:
    order = Order(num_rows=len(data), num_workers=num_workers, batch=8 // num_workers, seed=3)
    return islice(data.batches(order, rank), order.steps_per_epoch)


def damaged(record: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 1])


WIDTHS = {
    "matrix": [4] * NUM_ROWS,
    "blocks of other widths": [4] * (NUM_ROWS // 2) + [3] * (NUM_ROWS // 2),
    "rows of other widths": [1 + number % 3 for number in range(NUM_ROWS)],
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(tfrecord, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(RowStream, "least_rows", 32)


@pytest.mark.parametrize("every", [NUM_ROWS + 1, 10], ids=["good", "some bad"])
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
def test_batches_are_those_of_rows_parsed_by_themselves(tmp_path, monkeypatch, widths, every):
    records = framed(widths)
    for number in range(every, NUM_ROWS, every):
        records[number] = damaged(records[number])
    data = stream(tmp_path, records)
    assert len(data.blocks) > 10
    whole = list(batches(data))
    seen = data.counted()
    monkeypatch.setattr(RowStream, "taker", Stream.taker)
    alone = stream(tmp_path, records)
    wanted = list(batches(alone))
    assert len(whole) == len(wanted) > 60
    for ours, theirs in zip(whole, wanted, strict=True):
        assert len(ours) == len(theirs)
        assert all(map(torch.equal, ours, theirs))
    assert seen == alone.counted()
    assert (seen["skipped_rows"] > 0) == (every < NUM_ROWS)


def test_a_block_is_parsed_once_in_an_epoch(tmp_path, monkeypatch):
    data = stream(tmp_path, framed(WIDTHS["matrix"]))
    read = []
    monkeypatch.setattr(data, "_files", {path: Counted(f, read) for path, f in data._files.items()})
    list(batches(data))
    assert sorted(read) == [block.offset for block in data.blocks]


class Counted:
    """A file that remembers which of its blocks were read."""

    def __init__(self, file, read: list[int]):
        self._file = file
        self._read = read

    def read(self, block):
        self._read.append(block.offset)
        return self._file.read(block)


def test_a_bad_row_is_told_of_when_its_batch_is_taken(tmp_path, monkeypatch):
    records = framed(WIDTHS["matrix"])
    records[123] = damaged(records[123])

    def told() -> tuple[int, str]:
        taken = batches(stream(tmp_path, records, bad_rows="stop"))
        for number in count():
            try:
                next(taken)
            except DataError as error:
                return number, str(error)
        raise AssertionError

    whole = told()
    assert "record 124: its checksum is wrong" in whole[1]
    monkeypatch.setattr(RowStream, "taker", Stream.taker)
    assert told() == whole


def test_several_workers_see_what_one_sees(tmp_path):
    data = stream(tmp_path, framed(WIDTHS["matrix"]))
    shares = [list(batches(data, 2, rank)) for rank in range(2)]
    for whole, *parts in zip(batches(data), *shares, strict=True):
        assert features_of(whole) == [row for part in parts for row in features_of(part)]


def features_of(batch: list[torch.Tensor]) -> list[list[int]]:
    touched, positions, _ = batch
    rows: list[list[int]] = touched[positions].tolist()
    return rows


def test_a_file_that_changed_since_it_was_looked_through_is_told(tmp_path):
    records = framed(WIDTHS["matrix"])
    data = stream(tmp_path, records)
    content = bytearray((tmp_path / "rows.tfrecord").read_bytes())
    for length in (5, 1 << 62, (1 << 64) - 1):
        content[:8] = length.to_bytes(8, "little")
        (tmp_path / "rows.tfrecord").write_bytes(content)
        with pytest.raises(DataError, match="has changed since it was first looked through"):
            data.read(data.blocks[0])


def test_matrices_of_other_widths_stand_behind_each_other_as_rows_of_other_lengths():
    parts = [
        Examples(np.ones(1, np.float32), np.array([[7] * width], np.uint32)) for width in (2, 3)
    ]
    both = concatenated(parts)
    assert both.starts is not None
    assert both.starts.tolist() == [0, 2, 5]
