"""Reading files that somebody else may have written: with limits, and as plain values only.

A run's folder may come from a colleague, an archive or a crash. Whatever is in a file, reading it
here ends soon, takes bounded memory, and raises `OSError` or `ValueError` and nothing else. A pipe
or a device is never opened, and a link is not followed unless that is asked for: a folder must not
be able to show a file from elsewhere as its own.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

MIB: Final = 1 << 20
MOST_JSON_BYTES: Final = 16 * MIB
MOST_TOML_BYTES: Final = MIB
_MOST_DEPTH: Final = 32
_MOST_INT: Final = 1 << 63
_MOST_LINE_BYTES: Final = MIB
# Python's parser copies a dotted key for each of its parts: a long one takes minutes.
_MOST_DOTS: Final = 1000
# What a terminal, a page or LaTeX takes for an order and not for a letter: control characters, what
# turns the direction of text, and halves of characters. Tabs and ends of lines stay.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def opened(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file to read. The last part of its path may be a link only with `follow`."""
    looked_at = path.stat(follow_symlinks=follow)
    _refuse_others(looked_at.st_mode, path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        _refuse_others(os.fstat(descriptor).st_mode, path)  # it may be another by now
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most_bytes: int, *, follow: bool = False) -> bytes:
    """Read a file that is not larger than it may be."""
    with opened(path, follow=follow) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"larger than {most_bytes:,} bytes")
    return content


def read_text(path: Path, most_bytes: int, *, follow: bool = False) -> str:
    """Read a file of UTF-8 that is not larger than it may be."""
    return read_bytes(path, most_bytes, follow=follow).decode("utf-8")


def read_json(path: Path, most_bytes: int = MOST_JSON_BYTES, *, follow: bool = False) -> Any:
    """Read a file of JSON."""
    return parsed_json(read_bytes(path, most_bytes, follow=follow))


def parsed_json(text: bytes | str) -> Any:
    """Read JSON as plain values; bytes are UTF-8, and no other encoding is guessed."""
    told = text if isinstance(text, str) else text.decode("utf-8")
    try:
        return plain(json.loads(told))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_toml(
    path: Path, most_bytes: int = MOST_TOML_BYTES, *, follow: bool = False
) -> dict[str, Any]:
    """Read a file of TOML."""
    return parsed_toml(read_text(path, most_bytes, follow=follow))


def parsed_toml(text: str) -> dict[str, Any]:
    """Read TOML as plain values; a date is the text that it was."""
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise ValueError(f"a line with more than {_MOST_DOTS} dots")
    try:
        table: dict[str, Any] = plain(tomllib.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return table


def lines_of(path: Path) -> Iterator[bytes]:
    """Read a file line by line; one that is too long is the last."""
    with opened(path) as file:
        while line := file.readline(_MOST_LINE_BYTES):
            yield line


def plain(value: object, depth: int = 0) -> Any:
    """Give a value as lists, tables, numbers and visible text, not nested too deeply."""
    if isinstance(value, str):
        return visible(value)
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        if not -_MOST_INT < value < _MOST_INT:
            raise ValueError("a whole number beyond 64 bits")
        return value
    if depth >= _MOST_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {visible(str(key)): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each, depth + 1) for each in value]
    return visible(str(value))


def visible(text: str) -> str:
    """Write what would command a terminal as its code: an escape character as its four letters."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, most_letters: int = 200) -> str:
    """The same on one line, and not longer than anybody reads."""
    shown = visible(text[: most_letters + 1]).replace("\n", "\\n").replace("\t", " ")
    return shown if len(shown) <= most_letters else f"{shown[: most_letters - 1]}…"


def _refuse_others(mode: int, path: Path) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a link, where a file should be", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
