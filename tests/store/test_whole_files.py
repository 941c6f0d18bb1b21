"""Files that are written whole or not at all."""

import resource
from pathlib import Path

import pytest

from paceline.store.whole_files import write_atomically


def test_an_atomic_write_replaces_the_whole_and_leaves_nothing_beside(tmp_path: Path):
    path = tmp_path / "result.json"
    write_atomically(path, "a long first version")
    write_atomically(path, "short")
    assert path.read_text() == "short"
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing_beside(tmp_path: Path):
    path = tmp_path / "result.json"
    write_atomically(path, "old")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomically(path, "n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]
