"""A folder of converted rows that somebody made by hand is refused before it is mapped."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.workloads.data.sparse import binary
from paceline.workloads.data.sparse.rowset import Converted

TABLE = {
    "format": "paceline-rows",
    "version": 1,
    "kind": "libsvm",
    "coding": "index",
    "width": None,
    "num_rows": 3,
    "num_features": 9,
    "skipped_rows": 0,
    "first_skipped": "",
    "source": "here",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    describe(tmp_path)
    np.array([0, 1, 1], "<u1").tofile(tmp_path / "labels.u1")
    np.array([0, 2, 2, 5], "<i8").tofile(tmp_path / "starts.i8")
    np.arange(5, dtype="<u4").tofile(tmp_path / "features.u4")
    np.ones(5, "<f4").tofile(tmp_path / "values.f4")
    return tmp_path


def describe(folder: Path, **changes) -> None:
    (folder / "rows.json").write_text(json.dumps(TABLE | changes))


def check(folder: Path) -> None:
    Converted(folder, ["libsvm"], None).check()


def test_rows_that_are_as_they_should_be_are_taken(folder: Path):
    check(folder)
    assert len(binary.mapped(folder, binary.described(folder))) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"num_rows": -1},
        {"num_rows": 10**18},
        {"num_rows": "3"},
        {"num_rows": 2},
        {"width": -2},
        {"width": 4},
        {"num_features": -1},
        {"kind": "other"},
        {"source": None},
        {"format": 3},
        {"version": 2},
    ],
    ids=str,
)
def test_another_description_is_refused_before_anything_is_mapped(folder, changes, monkeypatch):
    describe(folder, **changes)
    monkeypatch.setattr(np, "memmap", None)
    with pytest.raises(DataError):
        check(folder)


@pytest.mark.parametrize("name", ["labels.u1", "starts.i8", "features.u4", "values.f4"])
def test_files_of_other_sizes_are_refused_before_anything_is_mapped(folder, name, monkeypatch):
    monkeypatch.setattr(np, "memmap", None)
    for size in (0, 1 << 40):
        os.truncate(folder / name, size)
        with pytest.raises(DataError, match="bytes where"):
            check(folder)


@pytest.mark.parametrize(
    "starts", [[0, 2, 2, -5], [0, 5, 2, 5], [1, 2, 2, 5], [0, -9, 2, 5], [0, 2**63 - 1, -2, 5]]
)
def test_rows_that_are_not_one_behind_the_other_are_refused(folder: Path, starts: list[int]):
    np.array(starts, "<i8").tofile(folder / "starts.i8")
    with pytest.raises(DataError):
        check(folder)


def test_a_pipe_is_not_waited_for(folder: Path):
    for name in ("values.f4", "rows.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(DataError):
            check(folder)
