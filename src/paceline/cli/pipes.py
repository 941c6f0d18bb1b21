"""Standard output and error that outlive their reader.

`paceline run … | head` closes the pipe while a run goes on. The run is not about its output: it
goes on, and what nobody reads is dropped.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO, final


@final
class _Unbreakable(io.FileIO):
    """A stream that becomes /dev/null when there is nobody left to read it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


def outlive_readers() -> None:
    """Have what is printed from now on never fail for want of a reader."""
    sys.stdout = _unbreakable(sys.stdout)
    sys.stderr = _unbreakable(sys.stderr)


def _unbreakable(stream: TextIO) -> TextIO:
    try:
        stream.flush()
        raw = _Unbreakable(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):  # closed, or no file at all
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=raw.isatty() or stream is sys.stderr,
    )
