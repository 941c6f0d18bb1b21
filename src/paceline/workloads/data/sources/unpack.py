"""Decompress and unpack without trusting what is inside: sizes are capped, names are ours."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from paceline.errors import DataError

_PIECE_BYTES = 1 << 20


def gunzip(zipped: Path, target: Path, limit_bytes: int) -> None:
    """Decompress one .gz file; DataError if it is corrupt, cut short or larger than it may be."""
    try:
        with gzip.open(zipped, "rb") as source:
            copy(source, target, limit_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{_name(zipped)}: gzip data is corrupt or cut short: {error}") from error


def untar(archive: Path, base_names: Iterable[str], folder: Path, limit_bytes: int) -> None:
    """Take the regular files with these base names out of a tar file, at any depth.

    A name that is not in the archive is no error; the caller sees that the file is missing.
    """
    wanted = set(base_names)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                base_name = member.name.rpartition("/")[2]
                if base_name not in wanted or not member.isfile():
                    continue
                if source := tar.extractfile(member):
                    copy(source, folder / base_name, limit_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(f"{_name(archive)}: archive is corrupt or cut short: {error}") from error


def copy(source: IO[bytes] | gzip.GzipFile, target: Path, limit_bytes: int) -> None:
    """Copy a stream into a file, but not more than `limit_bytes` of it."""
    written_bytes = 0
    with target.open("wb") as stream:
        while piece := source.read(_PIECE_BYTES):
            written_bytes += len(piece)
            if written_bytes > limit_bytes:
                raise DataError(f"{target.name}: larger than the {limit_bytes:,} bytes it may have")
            stream.write(piece)


def _name(path: Path) -> str:
    return path.name.removesuffix(".part")  # what the user knows it by
