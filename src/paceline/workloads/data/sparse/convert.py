"""Text or TFRecord files into plain arrays: in bounded memory, and to be continued if interrupted.

How far it got is noted every few blocks, after what was written till then. A conversion that is
started again cuts the files to what was noted and goes on from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, final

import numpy as np

from paceline.errors import DataError
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.data.sparse import binary, features
from paceline.workloads.data.sparse.binary import Coding, RowsHeader
from paceline.workloads.data.sparse.examples import Array, Examples
from paceline.workloads.data.sparse.files import opened
from paceline.workloads.data.sparse.libsvm import MOST_FEATURES
from paceline.workloads.data.sparse.notes import Conversion, Notes
from paceline.workloads.data.sparse.parsers import (
    RowsFormat,
    criteo_text,
    kind_of_rows,
    libsvm_text,
    tf_examples,
)
from paceline.workloads.data.sparse.reading import BadRows, Judge, Parse, blocks_of, placer
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.sparse.vocabulary import FeatureVocabulary
from paceline.workloads.data.sparse.writing import MatrixWriter, VectorWriter, Writer, Written, cut
from paceline.workloads.data.stream import prepared

Numbering = Literal["hash", "vocabulary"]

VOCABULARY: Final = "vocabulary.u8"
_KEY: Final = np.dtype("<u8")
_BLOCKS_A_NOTE: Final = 16


def convert(
    source: Path,
    out: Path,
    *,
    progress: Progress,
    format_: RowsFormat = "auto",
    numbering: Numbering = "hash",
    bad_rows: BadRows = "stop",
    data_dir: Path | None = None,
) -> RowsHeader:
    """Convert the rows of a file, or of all files of a folder or pattern, into the folder `out`.

    Returns what is known of them. Does nothing if they are there already.
    """
    files = opened(source, data_dir, progress)
    kind = kind_of_rows(files[0], format_)
    if numbering == "vocabulary" and kind != "criteo":
        raise DataError(f"{source}: {kind} rows have numbers for their features already")
    coding: Coding = numbering if kind == "criteo" else "index"
    with _held(out):
        notes = Notes(out, Conversion.of(files, kind=kind, coding=coding, bad_rows=bad_rows))
        if binary.is_converted(out):
            progress("already complete", 0, 0)
            return binary.described(out)
        while not _Conversion(files, out, notes).run(progress):
            progress("rows differ in length: starting again with another layout", 0, 0)
            notes.begin_as_vectors()
        return _sealed(source, out, notes)


@contextlib.contextmanager
def _held(out: Path) -> Iterator[None]:
    """Hold the folder: two conversions into one would spoil each other's rows."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{out}: cannot be created: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise DataError(f"{out}: another conversion writes into it") from None
    finally:
        os.close(handle)


def _sealed(source: Path, out: Path, notes: Notes) -> RowsHeader:
    """Write the description, last of all."""
    written = notes.written
    if not written.num_rows:
        raise DataError(f"{source}: there is no good row in it")
    described = RowsHeader(
        kind=notes.job.kind,
        coding=notes.job.coding,
        width=notes.width,
        num_rows=written.num_rows,
        num_features=None if notes.job.coding == "hash" else written.num_features,
        skipped_rows=written.skipped_rows,
        first_skipped=written.first_skipped,
        source=source.name,
    )
    described.write(out)
    return described


@final
class _Conversion:
    """One go at converting, from where the notes say."""

    def __init__(self, files: list[RowFile], out: Path, notes: Notes) -> None:
        self._blocks = blocks_of(files)
        self._out = out
        self._notes = notes
        self._written = notes.written
        self._skipped_before = notes.written.skipped_rows
        self._judge = Judge(notes.job.bad_rows, "--bad-rows skip")
        self._parse = _parser(notes.job)
        self._numberer: _Numberer | None = None
        if notes.job.coding == "vocabulary":
            self._numberer = _Numberer(out / VOCABULARY, notes.written.num_features)
        self._writer = self._open() if notes.is_laid_out else None

    def run(self, progress: Progress) -> bool:
        """Convert what is left; returns False where rows turn out not to fit into a matrix."""
        left = self._blocks[self._written.num_blocks :]
        total = sum(block.num_bytes for _, block in self._blocks)
        done = total - sum(block.num_bytes for _, block in left)
        parsed = prepared(lambda each: self._parse(each[0].read(each[1])), left, threads=2, ahead=4)
        try:
            for (file, block), found in zip(left, parsed, strict=True):
                self._judge.judge(found.bad, placer(file, block))
                if not self._write(found.examples):
                    return False
                done += block.num_bytes
                progress(f"converting {self._blocks[0][0].path}", done, total)
            self._note()
        finally:
            self._close()
        return True

    def _write(self, examples: Examples) -> bool:
        """Write a block's rows; returns whether they fitted."""
        if self._numberer is not None:
            examples = Examples(examples.labels, self._numberer.numbers(examples.features))
        if len(examples):
            if self._writer is None:
                width = None if examples.starts is not None else examples.features.shape[1]
                self._notes.lay_out(width)
                self._writer = self._open()
            if not self._writer.fits(examples):
                return False
            self._writer.write(examples)
        self._count(examples)
        if self._written.num_blocks % _BLOCKS_A_NOTE == 0:
            self._note()
        return True

    def _count(self, examples: Examples) -> None:
        before, flat = self._written, examples.features.reshape(-1)
        num_features = int(flat.max()) + 1 if len(flat) else 0
        if self._notes.job.coding == "hash":
            num_features = 0
        self._written = Written(
            num_blocks=before.num_blocks + 1,
            num_rows=before.num_rows + len(examples),
            num_values=before.num_values + len(flat),
            num_features=max(before.num_features, num_features),
            skipped_rows=self._skipped_before + self._judge.num_skipped,
            first_skipped=before.first_skipped or self._judge.first,
        )

    def _note(self) -> None:
        for file in (self._writer, self._numberer):
            if file is not None:
                file.flush()
        self._notes.note(self._written)

    def _open(self) -> Writer:
        width = self._notes.width
        if width is None:
            return VectorWriter(self._out, self._written)
        return MatrixWriter(self._out, width, self._written)

    def _close(self) -> None:
        for file in (self._writer, self._numberer):
            if file is not None:
                file.close()


@final
class _Numberer:
    """Numbers features by a vocabulary, and keeps it in a file in the order of the numbers."""

    def __init__(self, path: Path, num_known: int) -> None:
        self._file = cut(path, num_known * _KEY.itemsize)
        self._vocabulary = FeatureVocabulary(np.fromfile(path, _KEY))

    def numbers(self, keys: Array) -> Array:
        """Give features their numbers; new ones are added."""
        numbers, added = self._vocabulary.numbers(keys)
        self._file.write(added.astype(_KEY).data)
        return numbers

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _parser(job: Conversion) -> Parse:
    if job.kind == "criteo":
        return criteo_text(features.hashed if job.coding == "hash" else lambda keys: keys)
    if job.kind == "libsvm":
        return libsvm_text(None)
    return tf_examples(MOST_FEATURES)
