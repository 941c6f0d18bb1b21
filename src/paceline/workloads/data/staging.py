"""A folder for files on their way in, and the lock that makes it ours alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from paceline.errors import DataError
from paceline.workloads.data.sources.base import Progress

STAGING = ".getting"


@contextlib.contextmanager
def held(data_dir: Path, progress: Progress) -> Iterator[None]:
    """Hold the cache folder, so that two gets at once do not write the same files."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(data_dir, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{data_dir}: cannot be created: {error.strerror}") from error
    try:
        _lock(handle, data_dir, progress)
        yield
    finally:
        os.close(handle)  # lets go of the lock


@contextlib.contextmanager
def staging_in(folder: Path) -> Iterator[Path]:
    """An empty folder inside `folder`, gone at the end, and `folder` too if nothing came of it."""
    staging = folder / STAGING
    try:
        # One that is there was left by a process that was killed: we hold the lock.
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rmdir()  # refuses unless it is empty


def move_into(folder: Path, path: Path) -> None:
    """Move a file into its place: whoever looks sees the old one or the new one, whole."""
    try:
        path.replace(folder / path.name)
    except OSError as error:
        raise DataError(f"{folder / path.name}: cannot be replaced: {error.strerror}") from error


def make_empty(staging: Path) -> None:
    shutil.rmtree(staging)
    staging.mkdir()


def _lock(handle: int, data_dir: Path, progress: Progress) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(f"waiting for another process that writes into {data_dir}", 0, 0)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return  # some network file systems have no locks; renaming is still atomic
