"""Private folders for files that a user's run sends to a node, and what is left of older ones.

Who makes one holds a lock on it, and so do the processes that are forked from there. A folder that
nobody holds is that of a run all of whose processes were killed: whoever comes next removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "paceline-sent-"
_PRIVATE: Final = 0o700


def make_folder() -> Path:
    """Make a folder of mode 0700 that is ours for as long as this process or a fork of it lives."""
    # Under another name first: it must not be found before it is held.
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}")).resolve()
    with contextlib.suppress(OSError):  # without locks on this file system nobody removes it either
        fcntl.flock(_opened(made), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return made.rename(made.with_name(made.name.removeprefix(".")))


def sweep() -> None:
    """Remove the folders that nobody holds any more. Those of other users are left alone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is gone, held, or not ours
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode != stat.S_IFDIR | _PRIVATE:
        return
    held = _opened(folder)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(held)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
