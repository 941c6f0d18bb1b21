"""Is a file what the catalogue says it is? Size first, because that costs nothing; then md5."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.workloads.data.catalogue import MNIST, DataFile, DataSet

Condition = Literal["ok", "missing", "corrupt"]


@dataclass(frozen=True)
class FileState:
    """What was found where a file of a data set should be."""

    file: DataFile
    path: Path
    state: Condition
    reason: str = ""
    got_md5: str = ""

    @property
    def expected_md5(self) -> str:
        return self.file.md5

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.reason else f"{self.path}: {self.state}"


def md5_of(path: Path) -> str:
    """The md5 of a file's content, read piece by piece."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, _md5).hexdigest()


def check(path: Path, file: DataFile) -> FileState:
    """Compare the file at `path` with the catalogue's entry, to the last byte."""
    quick = check_size(path, file)
    if quick.state == "missing":
        return quick
    try:
        got = md5_of(path)
    except OSError as error:
        return FileState(file, path, "corrupt", f"cannot be read: {error.strerror}")
    if quick.state == "corrupt":
        return FileState(file, path, "corrupt", quick.reason, got)
    if got != file.md5:
        return FileState(file, path, "corrupt", wrong_md5(file.md5, got), got)
    return FileState(file, path, "ok", got_md5=got)


def check_size(path: Path, file: DataFile) -> FileState:
    """Compare only the size: enough to say whether a data set is there, not that it is whole."""
    try:
        size_bytes = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return FileState(file, path, "missing", "missing")
    except OSError as error:
        return FileState(file, path, "corrupt", f"cannot be read: {error.strerror}")
    if not path.is_file():
        return FileState(file, path, "corrupt", "not a regular file")
    if size_bytes != file.size_bytes:
        reason = f"has {size_bytes:,} bytes, should have {file.size_bytes:,}"
        return FileState(file, path, "corrupt", reason)
    return FileState(file, path, "ok")


def presence(dataset: DataSet, folder: Path) -> str:
    """Say in a word or two whether a data set is in its folder, by names and sizes."""
    states = [check_size(folder / file.name, file).state for file in dataset.files]
    if set(states) == {"missing"}:
        return "a tenth, embedded" if dataset is MNIST else "no"
    num_ok = states.count("ok")
    return "yes" if num_ok == len(states) else f"{num_ok} of {len(states)} files"


def wrong_md5(expected: str, got: str) -> str:
    return f"content differs: md5 is {got}, should be {expected}"


def _md5() -> hashlib._Hash:
    # A checksum against accidents; and so it works where policy forbids md5 for security.
    return hashlib.md5(usedforsecurity=False)
