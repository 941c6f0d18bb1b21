"""Parquet files of a run are read where they are what a run writes, and within limits."""

import os
from pathlib import Path

import polars
import pytest

from paceline.errors import StoreError
from paceline.reading import frames
from tests.made_runs import made


def read(path: Path) -> polars.DataFrame:
    return frames.read(path, frames.EVALUATIONS)


def test_what_a_run_wrote_is_read(tmp_path: Path):
    run = made(tmp_path)
    for name, columns in (("steps", frames.STEPS), ("nodes", frames.NODES)):
        path = getattr(run.folder, name)
        assert frames.read(path, columns).equals(polars.read_parquet(path))


def test_where_there_is_no_file_there_are_no_rows(tmp_path: Path):
    assert read(tmp_path / "none.parquet").is_empty()


def test_thirty_million_rows_in_a_small_file_are_refused(tmp_path: Path):
    path = tmp_path / "evaluations.parquet"
    rows = 30_000_000
    polars.select(time_s=polars.repeat(1.0, rows), progress=polars.repeat(1, rows)).write_parquet(
        path
    )
    assert path.stat().st_size < 1_000_000
    with pytest.raises(StoreError, match="30,000,000 rows"):
        read(path)


def with_footer(footer: bytes, before: bytes = b"") -> bytes:
    return b"PAR1" + before + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_a_footer_that_would_fill_the_memory_is_refused(tmp_path: Path):
    path = tmp_path / "evaluations.parquet"
    # One list of five million empty structures, each of which is a byte here and many when read.
    path.write_bytes(with_footer(b"\x19\xfc" + b"\xc0\x96\xb1\x02" + bytes(5_000_000) + b"\x00"))
    with pytest.raises(StoreError, match="a footer of 5,000,007 bytes"):
        read(path)


def test_pages_without_end_are_refused(tmp_path: Path):
    path = tmp_path / "evaluations.parquet"
    # Pages of data with no values and no bytes, nine bytes each, and a column that has them all.
    page, number = b"\x15\x00\x15\x00\x15\x00\x2c\x15\x00\x00\x00", 150_000
    size = varint(2 * number * len(page))
    column = b"\x3c" + b"\x55\x00\x26" + size + b"\x26\x08" + b"\x00\x00"
    group = b"\x19\x1c" + column + b"\x26\x00\x00"
    path.write_bytes(with_footer(b"\x36\x00\x19\x1c" + group + b"\x00", page * number))
    with pytest.raises(StoreError, match="more than 100,000 pages"):
        read(path)


def varint(value: int) -> bytes:
    more = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(each | 128 for each in more[:-1]), more[-1]])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"time_s": [1.0]}, "no column 'progress'"),
        ({"time_s": ["x"], "progress": [1]}, "column 'time_s' is String, not number"),
        ({"time_s": [1.0], "progress": [[1]]}, "column 'progress' is List"),
        ({"time_s": [1.0], "progress": [1], "\x1b[2J": ["x"]}, r"x1b\[2J' is String"),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, frame: dict, message: str):
    path = tmp_path / "evaluations.parquet"
    polars.DataFrame(frame).write_parquet(path)
    with pytest.raises(StoreError, match=message):
        read(path)


def test_a_damaged_file_is_refused(tmp_path: Path):
    path = tmp_path / "evaluations.parquet"
    polars.DataFrame({"time_s": [1.0], "progress": [1]}).write_parquet(path)
    whole = path.read_bytes()
    for content in (b"", whole[:-9], whole[:20] + b"\xff" * 20 + whole[40:], b"PAR1" * 9):
        path.write_bytes(content)
        with pytest.raises(StoreError, match=r"evaluations\.parquet cannot be read"):
            read(path)


def test_a_pipe_or_a_link_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "pipe.parquet")
    for name in ("pipe", "link"):
        with pytest.raises(StoreError, match="cannot be read"):
            read(tmp_path / f"{name}.parquet")
