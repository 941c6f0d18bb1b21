"""A user's own files on their way to a node: sent by the driver, laid out by a keeper.

They are code that will run there, with the rights of whoever started the node's agent.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from paceline.clusters.sent_folders import make_folder
from paceline.comm.keeper_words import Carry
from paceline.system.interpreter import find_below
from paceline.system.named_files import lay_out

MOST_FILES: Final = 1000
MOST_BYTES: Final = 16 << 20
"""Of all files together."""
# Two thirds of the longest word, as a piece travels.
_PIECE_BYTES: Final = 1 << 16


class Unwelcome(Exception):
    """What was sent is not what a driver sends."""


@final
@dataclass(frozen=True, kw_only=True)
class Packed:
    """One file."""

    path: str
    """Where it lies on the node, below a folder of the run."""
    name: str
    """What the spec calls it: its path on the driver's machine."""
    data: bytes

    @property
    def digest(self) -> str:
        """SHA-256, in hex."""
        return hashlib.sha256(self.data).hexdigest()

    def words(self) -> Iterator[Carry]:
        """Cut it into pieces, the last with the digest of all."""
        starts = range(0, len(self.data) or 1, _PIECE_BYTES)
        for start in starts:
            text = base64.b64encode(self.data[start : start + _PIECE_BYTES]).decode()
            digest = self.digest if start == starts[-1] else None
            yield Carry(path=self.path, name=self.name, data=text, digest=digest)


@final
class Unpacked:
    """A private folder with the files that came. Made when the first does."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._arriving: dict[str, bytes] = {}
        self._places: dict[str, Path] = {}
        self._num_files = 0
        self._num_bytes = 0

    def take(self, word: Carry) -> None:
        """Keep a piece; a file is written when all of it is there, and is what was sent."""
        try:
            data = base64.b64decode(word.data, validate=True)
        except ValueError as error:
            raise Unwelcome(f"{word.path}: {error}") from error
        self._num_bytes += len(data)
        self._num_files += word.path not in self._arriving
        if self._num_bytes > MOST_BYTES or self._num_files > MOST_FILES:
            raise Unwelcome(f"more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes")
        whole = self._arriving.get(word.path, b"") + data
        self._arriving[word.path] = whole
        if word.digest is not None:
            del self._arriving[word.path]
            if hashlib.sha256(whole).hexdigest() != word.digest:
                raise Unwelcome(f"{word.path} arrived damaged: its checksum is another one")
            self._places[word.name] = self._written(word.path, whole)

    def _written(self, path: str, data: bytes) -> Path:
        parts = PurePosixPath(path).parts
        if not parts or ".." in parts or PurePosixPath(path).is_absolute() or "\0" in path:
            raise Unwelcome(f"{path!r} is not below the folder of the run")
        if self.folder is None:
            self.folder = make_folder()
        target = self.folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            file.write(data)
        return target

    def lay_out(self) -> None:
        """Have them found in this process and its forks, under the names that the spec has."""
        if self.folder is None:
            return
        for root in sorted(self.folder.iterdir()):
            find_below(root)
        lay_out(self._places)

    def remove(self) -> None:
        """Remove all of it. Idempotent."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self.folder)
