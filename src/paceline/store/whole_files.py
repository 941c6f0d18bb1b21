"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from paceline.reading import untrusted


def written_beside(
    path: Path, write: Callable[[BinaryIO], object], *, lasting: bool = True
) -> None:
    """Write a file whole or not at all: beside it first, then renamed.

    The file beside it is new and of a name that nobody can foresee, so no link is followed. Unless
    it is to be `lasting`, the machine may lose it when it loses its power.
    """

    def fill(beside: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o666), "wb") as file:
            write(file)

    named_beside(path, fill, lasting=lasting)


def named_beside(path: Path, write: Callable[[Path], object], *, lasting: bool = True) -> None:
    """Do the same with a library that opens files itself, by their names."""
    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.tmp")
    try:
        write(beside)
        if lasting:
            with untrusted.opened(beside) as file:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, text: str, *, lasting: bool = True) -> None:
    """Write a text whole or not at all."""
    written_beside(path, lambda file: file.write(text.encode("utf-8")), lasting=lasting)
