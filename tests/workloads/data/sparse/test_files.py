"""Files in blocks: every row once, from anywhere, plain or gzip; broken ones are told."""

import gzip
import random
from pathlib import Path

import pytest

from paceline.errors import DataError
from paceline.workloads.data.sparse import files, text
from paceline.workloads.data.sparse.text import GzipText, PlainText


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(text, "_BLOCK_BYTES", 1000)


LINES = [f"line {number} {'x' * (number % 50)}".encode() for number in range(500)]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def opened(path: Path, folder: Path) -> PlainText | GzipText:
    (file,) = files.opened(path, folder / "cache")
    return file


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz"])
@pytest.mark.parametrize("end", [b"\n", b""], ids=["newline", "no newline"])
def test_blocks_have_every_line_once_in_whatever_order_they_are_read(
    name, end, tmp_path, small_blocks
):
    file = opened(written(tmp_path / name, b"\n".join(LINES) + end), tmp_path)
    assert len(file.blocks) > 5
    assert sum(block.num_rows for block in file.blocks) == len(LINES)
    numbers = list(range(len(file.blocks)))
    for seed in range(3):
        random.Random(seed).shuffle(numbers)
        read = {number: file.read(file.blocks[number]) for number in numbers}
        assert [line for number in sorted(read) for line in read[number]] == LINES


def test_a_row_is_placed_by_file_and_line(tmp_path, small_blocks):
    path = written(tmp_path / "rows.txt", b"\n".join(LINES))
    file = opened(path, tmp_path)
    second = file.blocks[1]
    number = LINES.index(file.read(second)[3]) + 1
    assert file.place(second, 3) == f"{path}, line {number}"


def test_a_path_may_be_a_folder_or_a_pattern(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in ("b.txt", "a.txt", "_SUCCESS", ".hidden"):
        (folder / name).write_bytes(b"1\n")
    assert [path.name for path in files.found(folder)] == ["a.txt", "b.txt"]
    assert [path.name for path in files.found(folder / "b*.txt")] == ["b.txt"]
    with pytest.raises(DataError, match=r"c\*\.txt: no such file"):
        files.found(folder / "c*.txt")


def test_an_empty_file_or_folder_is_told(tmp_path):
    for name in ("empty.txt", "empty.gz"):
        path = written(tmp_path / name, b"")
        with pytest.raises(DataError, match=rf"{name}: empty"):
            opened(path, tmp_path)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match=r"nothing: there is no file in this folder"):
        files.found(tmp_path / "nothing")


def test_a_gzip_that_breaks_off_is_told_with_its_last_line(tmp_path):
    whole = b"".join(f"{random.Random(n).random()}\n".encode() for n in range(5000))
    path = written(tmp_path / "rows.gz", whole)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"rows\.gz: cut short: .* breaks off after line 4,\d\d\d"):
        opened(path, tmp_path)


def test_a_gzip_that_is_damaged_is_told(tmp_path):
    path = written(tmp_path / "rows.gz", b"some text\n" * 5000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"rows\.gz: (damaged|cut short)"):
        opened(path, tmp_path)


def test_where_rows_lie_is_found_once_and_again_when_the_file_changes(tmp_path, small_blocks):
    path = written(tmp_path / "rows.txt", b"\n".join(LINES))
    told = []

    def look() -> int:
        told.clear()
        (file,) = files.opened(path, tmp_path / "cache", lambda *each: told.append(each))
        return sum(block.num_rows for block in file.blocks)

    assert look() == 500
    assert told[-1] == (f"looking through {path}", path.stat().st_size, path.stat().st_size)
    assert look() == 500
    assert not told
    path.write_bytes(b"\n".join([*LINES, b"one more"]))
    assert look() == 501
    assert told


def test_a_cache_folder_that_cannot_be_written_only_costs_time(tmp_path):
    path = written(tmp_path / "rows.txt", b"a\nb\n")
    (tmp_path / "cache").write_text("a file is in the way")
    assert opened(path, tmp_path).read(opened(path, tmp_path).blocks[0]) == [b"a", b"b"]


def test_a_file_that_shrank_while_it_was_used_is_told(tmp_path):
    path = written(tmp_path / "rows.txt", b"a\nb\n")
    file = opened(path, tmp_path)
    path.write_bytes(b"a\n")
    with pytest.raises(DataError, match="has changed since"):
        file.read(file.blocks[0])
