"""Which files a path means, what they are, and where their rows lie."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from paceline.errors import DataError
from paceline.reading import untrusted
from paceline.reading.schema import read
from paceline.store.whole_files import write_atomically
from paceline.workloads.data.catalogue import default_data_dir
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.data.sparse.binary import NOTES
from paceline.workloads.data.sparse.rowfile import RowFile
from paceline.workloads.data.sparse.text import GzipText, PlainText, is_gzip
from paceline.workloads.data.sparse.tfrecord import TfRecords, begins_like_one
from paceline.workloads.data.stream import Block

_INDEXES = "indexes"
_HEAD_BYTES = 16
_MOST_INDEX_BYTES = 256 * untrusted.MIB


def found(path: Path) -> list[Path]:
    """The files that a path means: itself, those of a folder, or those that a pattern matches."""
    if (path / NOTES).exists():
        raise DataError(f"{path}: a conversion that was not finished; start it again")
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.is_file())
        files = [each for each in inside if not each.name.startswith((".", "_"))]
        if not files:
            raise DataError(f"{path}: there is no file in this folder")
        return files
    if path.is_file():
        return [path]
    matching = sorted(Path(each) for each in glob.glob(str(path)))  # noqa: PTH207 - may be absolute
    if not matching:
        raise DataError(f"{path}: no such file")
    return matching


def kind_of(path: Path) -> type[RowFile]:
    """Say what kind of file it is by how it begins."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not head:
        raise DataError(f"{path}: empty")
    if is_gzip(head):
        return GzipText
    return TfRecords if begins_like_one(head) else PlainText


def opened(
    path: Path, data_dir: Path | None = None, progress: Progress | None = None
) -> list[RowFile]:
    """Open all files that a path means, each with its blocks.

    Where rows begin is found by going through a file once, and kept in the cache folder.
    """
    folder = (data_dir or default_data_dir()) / _INDEXES
    made = []
    for file in found(path):
        kind = kind_of(file)
        made.append(kind(file, _indexed(kind, file, folder, progress or _silent)))
    return made


@final
@dataclass(frozen=True)
class _Index:
    """Where the blocks of a file are: offset, bytes, rows."""

    of: dict[str, Any]
    blocks: list[tuple[int, int, int]]


def _silent(message: str, done: int, total: int) -> None:
    """Tell nobody."""


def _indexed(kind: type[RowFile], path: Path, folder: Path, progress: Progress) -> Sequence[Block]:
    """Take a file's blocks from the cache folder, or find and keep them."""
    state = path.stat()
    known = {"size": state.st_size, "mtime_ns": state.st_mtime_ns, "kind": kind.__name__}
    kept = folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, ValueError):
        index = read(_Index, untrusted.read_json(kept, _MOST_INDEX_BYTES))
        if index.of == known:
            return [Block(path, *each) for each in index.blocks]
    blocks = []
    for block in kind.scan(path):
        blocks.append(block)
        total = 0 if kind.is_sequential else state.st_size
        progress(f"looking through {path}", block.offset + block.num_bytes, total)
    if not blocks:
        raise DataError(f"{path}: empty")
    rows = [[block.offset, block.num_bytes, block.num_rows] for block in blocks]
    _keep(kept, {"of": known, "blocks": rows})
    return blocks


def _keep(path: Path, table: object) -> None:
    """Write beside and rename; a folder that cannot be written only costs time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(table), lasting=False)
