"""Converted rows are the rows of the file, whatever happened on the way."""

import gzip
import json
import mmap
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.workloads.data.sparse import binary, convert, example_writer, features, files, text
from paceline.workloads.data.sparse import tfrecord as tfrecord_module
from paceline.workloads.data.sparse.binary import RowsHeader
from paceline.workloads.data.sparse.convert import VOCABULARY
from paceline.workloads.data.sparse.examples import Examples
from paceline.workloads.data.sparse.vocabulary import FeatureVocabulary
from tests.workloads.data.sparse.rows import made

ROWS = made(600)


def silent(message: str, done: int, total: int) -> None:
    """Tell nobody."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks, and a note after every second."""
    monkeypatch.setattr(text, "_BLOCK_BYTES", 10_000)
    monkeypatch.setattr(tfrecord_module, "_BLOCK_BYTES", 10_000)
    monkeypatch.setattr(convert, "_BLOCKS_A_NOTE", 2)


def converted(source: Path, out: Path, progress=silent, **options) -> tuple[RowsHeader, Examples]:
    options |= {"data_dir": source.parent / "cache"}
    known = convert.convert(source, out, progress=progress, **options)
    return known, binary.mapped(out, known)


def criteo_file(folder: Path, lines: list[bytes] | None = None) -> Path:
    path = folder / "criteo.tsv"
    path.write_bytes(ROWS.text if lines is None else b"\n".join(lines))
    return path


def tfrecord_file(folder: Path) -> Path:
    path = folder / "rows.tfrecord"
    numbers = np.array(ROWS.numbers, np.uint32)
    path.write_bytes(b"".join(example_writer.framed(np.array(ROWS.labels), numbers)))
    return path


def assert_are_the_rows(known: RowsHeader, rows: Examples) -> None:
    numbers = rows.features
    if known.coding == "hash":
        numbers = features.numbered(numbers, 5000)
    assert rows.labels.tolist() == ROWS.labels
    assert numbers.tolist() == ROWS.numbers


def _root(array: np.ndarray) -> object:
    """What the memory of an array is a part of."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def test_text_becomes_hashes_that_fit_any_number_of_features(tmp_path):
    path = criteo_file(tmp_path)
    known, rows = converted(path, tmp_path / "out")
    assert_are_the_rows(known, rows)
    assert (known.kind, known.coding, known.num_rows, known.num_features) == (
        "criteo",
        "hash",
        600,
        None,
    )
    assert isinstance(_root(rows.features), mmap.mmap)
    size = sum(each.stat().st_size for each in (tmp_path / "out").iterdir())
    assert size < 0.7 * path.stat().st_size


def test_gzip_and_several_files_are_as_one_plain_file(tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    (folder / "day_0.gz").write_bytes(gzip.compress(b"\n".join(ROWS.lines[:250])))
    (folder / "day_1").write_bytes(b"\n".join(ROWS.lines[250:]))
    assert_are_the_rows(*converted(folder, tmp_path / "out"))


def test_records_become_a_matrix_of_their_own_numbers(tmp_path):
    known, rows = converted(tfrecord_file(tmp_path), tmp_path / "out")
    assert (known.kind, known.coding, known.width) == ("tfrecord", "index", 39)
    assert known.num_features == max(max(row) for row in ROWS.numbers) + 1
    assert_are_the_rows(known, rows)


def test_a_vocabulary_numbers_each_feature_that_occurs(tmp_path):
    known, rows = converted(criteo_file(tmp_path), tmp_path / "out", numbering="vocabulary")
    keys = np.fromfile(tmp_path / "out" / VOCABULARY, "<u8")
    assert known.num_features == len(keys) == len(np.unique(keys)) == rows.features.max() + 1
    again = features.numbered(features.hashed(keys[rows.features]), 5000)
    assert again.tolist() == ROWS.numbers


def test_a_vocabulary_remembers_through_many_merges(monkeypatch):
    monkeypatch.setattr("paceline.workloads.data.sparse.vocabulary._LEAST_MERGED", 8)
    vocabulary, generator = FeatureVocabulary(np.zeros(0, np.uint64)), np.random.default_rng(0)
    known: dict[int, int] = {}
    for _ in range(60):
        keys = generator.integers(0, 400, (5, 3)).astype(np.uint64)
        numbers, added = vocabulary.numbers(keys)
        known |= {key: len(known) + place for place, key in enumerate(added.tolist())}
        assert numbers.tolist() == [[known[key] for key in row] for row in keys.tolist()]
    assert len(vocabulary) == len(known)


def test_libsvm_rows_keep_their_lengths_and_values(tmp_path):
    lines = [
        f"{1 if n % 3 else -1} " + " ".join(f"{k}:{k / n}" for k in range(1, n % 7 + 1))
        for n in range(1, 900)
    ]
    path = tmp_path / "rows.libsvm"
    path.write_text("\n".join(lines))
    known, rows = converted(path, tmp_path / "out")
    assert (known.kind, known.coding, known.width, known.num_features) == (
        "libsvm",
        "index",
        None,
        6,
    )
    assert rows.labels.tolist() == [float(n % 3 != 0) for n in range(1, 900)]
    for n in (1, 6, 7, 500, 899):
        one = rows.take(np.array([n - 1]))
        assert one.features.tolist() == list(range(n % 7))
        assert one.values.tolist() == pytest.approx([k / n for k in range(1, n % 7 + 1)])


def test_records_that_turn_out_to_differ_in_length_are_begun_again_as_vectors(tmp_path):
    path = tfrecord_file(tmp_path)
    short = example_writer.framed(np.array([1.0]), np.array([[5, 6]], np.uint32))
    path.write_bytes(path.read_bytes() + b"".join(short))
    told = []
    known, rows = converted(path, tmp_path / "out", lambda *each: told.append(each[0]))
    assert known.width is None
    assert any("differ in length" in each for each in told)
    assert rows.take(np.array([600])).features.tolist() == [5, 6]
    assert rows.take(np.array([17])).features.tolist() == ROWS.numbers[17]


@pytest.mark.parametrize("numbering", ["hash", "vocabulary"])
@pytest.mark.parametrize("after", [1, 7])
def test_a_conversion_that_was_interrupted_goes_on_where_it_ended(numbering, after, tmp_path):
    path, whole, cut = criteo_file(tmp_path), tmp_path / "whole", tmp_path / "cut"
    converted(path, whole, numbering=numbering)
    calls = []

    def interrupt(message: str, done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == after and message.startswith("converting"):
            raise KeyboardInterrupt

    # the first time through, the file is looked through already
    with pytest.raises(KeyboardInterrupt):
        converted(path, cut, interrupt, numbering=numbering)
    assert not binary.is_converted(cut)
    with pytest.raises(DataError, match="a conversion that was not finished; start it again"):
        files.found(cut)
    noted = json.loads((cut / binary.NOTES).read_text())["written"]["num_blocks"]
    assert noted == after - after % 2
    with next(cut.glob("*.u4")).open("ab") as file:
        file.write(b"half a row")  # killed in the middle of a write
    calls = [0] * 100
    converted(path, cut, interrupt, numbering=numbering)
    assert len(calls) == 100 + 15 - noted  # what was noted is not read again
    for each in whole.iterdir():
        assert (cut / each.name).read_bytes() == each.read_bytes()


def test_what_is_complete_is_left_alone_and_something_else_is_not_written_over(tmp_path):
    path, out = criteo_file(tmp_path), tmp_path / "out"
    known, _ = converted(path, out)
    told = []
    again, _ = converted(path, out, lambda *each: told.append(each[0]))
    assert again == known
    assert told == ["already complete"]
    with pytest.raises(DataError, match="holds a conversion of other rows, or with other options"):
        converted(path, out, numbering="vocabulary")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("do not touch")
    with pytest.raises(DataError, match="other: is not empty"):
        converted(path, other)


def test_bad_rows_stop_or_are_counted(tmp_path):
    lines = [*ROWS.lines]
    lines[400] = lines[400].rpartition(b"\t")[0]
    lines[420] = b"2" + lines[420][1:]
    path = criteo_file(tmp_path, lines)
    with pytest.raises(DataError, match=r"criteo\.tsv, line 401: 39 columns, not 40; --bad-rows"):
        converted(path, tmp_path / "out")
    known, rows = converted(path, tmp_path / "skipped", bad_rows="skip")
    assert (known.num_rows, known.skipped_rows) == (598, 2)
    assert known.first_skipped == f"{path}, line 401: 39 columns, not 40"
    assert rows.labels.tolist() == [*ROWS.labels[:400], *ROWS.labels[401:420], *ROWS.labels[421:]]


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"hello world\n", {}, "line 1: neither columns with tabs .* nor index:value"),
        (b"hello\tworld\n", {}, "line 1: 2 columns, not 40"),
        (b"1 1:1\n", {"numbering": "vocabulary"}, "libsvm rows have numbers"),
        (b"1 1:1\n", {"format_": "tfrecord"}, "is not a TFRecord file, but tfrecord was asked"),
        (b"2 1:1\n", {"bad_rows": "skip"}, "there is no good row in it"),
    ],
)
def test_files_of_another_kind_are_told(content, options, told, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=told):
        converted(path, tmp_path / "out", **options)


def test_a_folder_whose_files_were_cut_is_told(tmp_path):
    _, _ = converted(criteo_file(tmp_path), tmp_path / "out")
    with (tmp_path / "out" / "rows.u4").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(DataError, match=r"rows\.u4: 1,000 bytes where 96,000 should be"):
        binary.mapped(tmp_path / "out", binary.described(tmp_path / "out"))
