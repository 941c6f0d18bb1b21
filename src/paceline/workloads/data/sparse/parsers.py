"""Which rows a file holds, and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from paceline.errors import DataError
from paceline.workloads.data.sparse import criteo, example, libsvm
from paceline.workloads.data.sparse.binary import RowsKind
from paceline.workloads.data.sparse.examples import Array, Examples, Parsed
from paceline.workloads.data.sparse.reading import Parse
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.sparse.tfrecord import TfRecords

RowsFormat = Literal["auto", "criteo", "libsvm", "tfrecord"]


def kind_of_rows(file: RowFile, wanted: RowsFormat = "auto") -> RowsKind:
    """Say what kind of rows a file holds; text is judged by its first line."""
    is_tfrecord = isinstance(file, TfRecords)
    if is_tfrecord or wanted == "tfrecord":
        if not is_tfrecord or wanted not in {"auto", "tfrecord"}:
            is_one = "is" if is_tfrecord else "is not"
            raise DataError(f"{file.path}: {is_one} a TFRecord file, but {wanted} was asked for")
        return "tfrecord"
    if wanted != "auto":
        return wanted
    line = file.read(file.blocks[0])[0]
    if b"\t" in line:
        return "criteo"
    if b":" in line:
        return "libsvm"
    reason = "neither columns with tabs between them (Criteo) nor index:value (libsvm)"
    raise DataError(f"{file.place(file.blocks[0], 0)}: {reason}")


def criteo_text(number: Callable[[Array], Array]) -> Parse:
    """Read Criteo's lines; `number` gives keys of features their numbers."""

    def parse(rows: Sequence[bytes]) -> Parsed:
        found = criteo.parse(_text(rows))
        return Parsed(Examples(found.labels, number(found.keys)), found.bad)

    return parse


def tf_examples(num_features: int) -> Parse:
    """Read tf.Example records with features below `num_features`."""
    return lambda rows: example.parse(rows, num_features)


def libsvm_text(num_features: int | None) -> Parse:
    """Read libsvm's lines with indices up to `num_features`."""
    return lambda rows: libsvm.parse(_text(rows), num_features)


def _text(rows: Sequence[bytes]) -> bytes:
    return b"\n".join([*rows, b""])
