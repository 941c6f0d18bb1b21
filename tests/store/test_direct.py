"""Files that are written past the memory in which Linux keeps a copy."""

import os
from pathlib import Path

import pytest

from paceline.store import direct
from paceline.store.direct import DirectFile

PIECE = 8192


def write(path: Path, parts: list[bytes]) -> None:
    with DirectFile(path, piece_bytes=PIECE) as file:
        for each in parts:
            file.write(each)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, PIECE, PIECE + 1, 3 * PIECE + 17])
def test_a_file_is_read_as_it_was_written(size: int, tmp_path: Path):
    data = os.urandom(size)
    write(tmp_path / "file", [data])
    assert (tmp_path / "file").read_bytes() == data


def test_it_may_be_written_in_parts_of_any_size(tmp_path: Path):
    parts = [os.urandom(size) for size in (3, 5000, 0, 4096, 20_001, 1)]
    write(tmp_path / "file", parts)
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


def test_where_a_file_system_cannot_do_without_a_copy_it_is_made(tmp_path: Path, monkeypatch):
    wrote = os.write
    refused: list[int] = []

    def refuse_once(descriptor: int, data: memoryview) -> int:
        if not refused:
            refused.append(len(data))
            raise OSError(22, "Invalid argument")
        return wrote(descriptor, data)

    monkeypatch.setattr(direct.os, "write", refuse_once)
    data = os.urandom(2 * PIECE + 5)
    write(tmp_path / "file", [data])
    assert refused
    assert (tmp_path / "file").read_bytes() == data


def test_what_is_written_only_in_part_is_written_on(tmp_path: Path, monkeypatch):
    wrote = os.write
    monkeypatch.setattr(direct.os, "write", lambda fd, data: wrote(fd, data[:1000]))
    data = os.urandom(2 * PIECE + 5)
    write(tmp_path / "file", [data])
    assert (tmp_path / "file").read_bytes() == data


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"before")
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", [b"after"])
    assert (tmp_path / "file").read_bytes() == b"before"


def test_an_error_while_it_is_written_is_not_hidden(tmp_path: Path):
    def fail() -> None:
        with DirectFile(tmp_path / "file") as file:
            file.write(b"half")
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller"):
        fail()
