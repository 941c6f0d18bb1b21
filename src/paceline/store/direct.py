"""Large files, written past the memory in which Linux keeps a copy of what is written.

To make that copy costs a processor several times what it takes to sum the same bytes up, and
training wants the processors.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

# What a disk takes at once: addresses, lengths and places in the file are multiples of it.
_BLOCK_BYTES: Final = 4096
_PIECE_BYTES: Final = 4 << 20


@final
class DirectFile:
    """A new file that is written from its beginning to its end.

    Where a file system cannot do without the copy, it is made after all.
    """

    def __init__(self, path: Path, piece_bytes: int = _PIECE_BYTES) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)
        self._set_direct(os.O_DIRECT)
        self._piece = memoryview(mmap.mmap(-1, piece_bytes))  # begins where a page does
        self._num_held = 0
        self._num_bytes = 0

    def _set_direct(self, direct: int) -> None:
        before = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, before & ~os.O_DIRECT | direct)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    def write(self, data: bytes | memoryview) -> None:
        import numpy as np

        rest = memoryview(data).cast("B")
        while rest:
            size = min(len(rest), len(self._piece) - self._num_held)
            held = self._piece[self._num_held : self._num_held + size]
            np.copyto(np.frombuffer(held, np.uint8), np.frombuffer(rest[:size], np.uint8))
            self._num_held += size
            rest = rest[size:]
            if self._num_held == len(self._piece):
                self._write_out()

    def _write_out(self) -> None:
        """Write what is held, filled up to a whole block; what is too much is cut off later."""
        self._num_bytes += self._num_held
        stop = -(-self._num_held // _BLOCK_BYTES) * _BLOCK_BYTES
        self._num_held = 0
        left = self._piece[:stop]
        while left:
            left = left[self._written(left) :]
            if left:  # and these may begin anywhere
                self._set_direct(0)

    def _written(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._set_direct(0)
            return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                if self._num_held:
                    self._write_out()
                os.ftruncate(self._descriptor, self._num_bytes)
        finally:
            os.close(self._descriptor)
