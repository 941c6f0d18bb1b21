"""Generated rows are written once, kept, and read back as what they were."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.workloads.data.sparse import binary, example, files, generate, shape
from paceline.workloads.data.sparse.generate import Generated
from paceline.workloads.ranking import area_under_curve


def silent(message: str, done: int, total: int) -> None:
    """Tell nobody."""


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(generate, "_ROWS_A_FILE", 1000)
    monkeypatch.setattr(generate, "_ROWS_AT_ONCE", 300)
    monkeypatch.setattr(shape, "_NUM_TRIED", 20_000)


def rows_of(pattern: Path, folder: Path) -> example.Examples:
    read = [
        row
        for file in files.opened(pattern, folder)
        for block in file.blocks
        for row in file.read(block)
    ]
    found = example.parse(read, 33_762_578)
    assert not found.bad
    return found.examples


def test_files_are_made_once_and_hold_what_the_planted_model_labelled(tmp_path, small_files):
    wanted = Generated(
        num_rows=2500, num_test=1200, num_features=33_762_578, seed=3, data_dir=tmp_path
    )
    with pytest.raises(DataError, match="no generated rows here"):
        wanted.facts()
    told = []
    wanted.make(lambda *each: told.append(each))
    assert (3700, 3700) in [each[1:] for each in told]
    assert "generating rows" in told[0][0]
    names = sorted(path.name for path in wanted.folder.iterdir())
    assert names == [
        "generated.json",
        "test-00000.tfrecord",
        "test-00001.tfrecord",
        "train-00000.tfrecord",
        "train-00001.tfrecord",
        "train-00002.tfrecord",
        "train-converted",
    ]
    train, test = (rows_of(each, tmp_path) for each in (wanted.train, wanted.test))
    assert (len(train), len(test)) == (2500, 1200)
    kept = binary.mapped(wanted.kept, binary.described(wanted.kept))
    assert np.array_equal(kept.features, train.features)
    assert np.array_equal(kept.labels, train.labels)
    assert train.features.shape == (2500, 39)
    scores = shape.Planted(33_762_578, 3).scores(test.features.astype(np.int64))
    facts = wanted.facts()
    assert facts.planted_auc == pytest.approx(area_under_curve(scores, test.labels))
    assert facts.positive_share == pytest.approx(test.labels.mean())
    assert not np.array_equal(train.features[:1200], test.features)
    before = {path: path.stat().st_mtime_ns for path in wanted.folder.iterdir()}
    told.clear()
    wanted.make(lambda *each: told.append(each))
    assert not told
    assert before == {path: path.stat().st_mtime_ns for path in wanted.folder.iterdir()}


def test_making_that_was_interrupted_goes_on_and_gives_the_same(tmp_path, small_files):
    fields = {"num_rows": 2500, "num_test": 600, "num_features": 1000, "seed": 1}
    whole, cut = (Generated(**fields, data_dir=tmp_path / name) for name in ("whole", "cut"))
    whole.make(silent)

    def interrupt(message: str, done: int, total: int) -> None:
        if done >= 1600:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut.make(interrupt)
    first = cut.folder / "train-00000.tfrecord"
    made_ns = first.stat().st_mtime_ns
    cut.make(silent)
    assert first.stat().st_mtime_ns == made_ns
    for path in [*whole.folder.glob("*.*"), whole.kept / "rows.u4"]:
        again = cut.folder / path.relative_to(whole.folder)
        assert again.read_bytes() == path.read_bytes()


@pytest.fixture
def _ordinary_user():
    """Root may write everywhere: be somebody else, if need be."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    yield
    os.seteuid(user)


def test_older_rows_that_are_not_converted_are_used_where_nothing_can_be_written(
    tmp_path, small_files, monkeypatch, request
):
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    fields = {"num_rows": 400, "num_test": 100, "num_features": 1000, "seed": 1}
    wanted = Generated(**fields, data_dir=Path("cache"))
    wanted.make(silent)
    shutil.rmtree(wanted.kept)
    wanted.folder.chmod(0o555)
    request.getfixturevalue("_ordinary_user")
    wanted.make(silent)
    assert wanted.facts().positive_share > 0
    assert not wanted.kept.exists()


def test_other_rows_are_in_another_folder(tmp_path):
    fields = {"num_rows": 10, "num_test": 5, "num_features": 7, "seed": 0, "data_dir": tmp_path}
    variants = [fields | {key: 11} for key in ("num_rows", "num_test", "num_features", "seed")]
    folders = {Generated(**each).folder for each in [fields, *variants]}
    assert len(folders) == 5
