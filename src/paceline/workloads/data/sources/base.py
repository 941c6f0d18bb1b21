"""What a source of data files is: one method that puts files into a folder, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from paceline.workloads.data.catalogue import DataFile

# Called with (message, bytes done, bytes in total); a total of 0 means: only a message.
Progress = Callable[[str, int, int], None]


class Source(Protocol):
    """A place that may hold the files of one data set."""

    @property
    def title(self) -> str:
        """What to call it in messages."""
        ...

    def bring(self, wanted: Sequence[DataFile], staging: Path, progress: Progress) -> None:
        """Put each wanted file, decompressed and by its name, into the empty folder `staging`.

        Raises DataError (or OSError) with a one-line reason when it cannot; files that it had
        put there by then still count. It need not check them: the caller does, and throws
        away the wrong ones along with whatever else lies in `staging`.
        """
        ...
