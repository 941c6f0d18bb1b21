"""The folder of a study: the only place that knows its files' names.

runs/study-mnist-logistic-quick/
  runs/       one folder a run, as `paceline run` makes them
  study.json  which study it is, which variant, and what was set in every run
  study.lock  held by the process that carries the study out

A run is found by its spec: there is no list of what is done that could be wrong after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from paceline.errors import StoreError
from paceline.reading import schema, untrusted
from paceline.settings import Fields
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.store.whole_files import write_atomically
from paceline.studies import NOTE, RUNS
from paceline.studies.grid import Variant
from paceline.studies.keys import key_of_table

# As `create_run` names a folder: what is named otherwise was put there by somebody.
_MADE: Final = re.compile(r"\d{8}-\d{6}-.+-[0-9a-f]{6}")


@final
@dataclass(frozen=True)
class Contents:
    """The runs in a study's folder, by the key of their spec."""

    finished: dict[str, StoredRun] = field(default_factory=dict)
    """Sealed, and got to their end."""
    unfinished: dict[str, list[RunDir]] = field(default_factory=dict)
    """What earlier attempts have left. Whose spec or seal cannot be read is in neither."""

    def failure(self, key: str) -> str | None:
        """Say why a run failed, the last time; None where it did not, or was only stopped."""
        left = [_stored(run) for run in self.unfinished.get(key, ())]
        failed = [each for each in left if each is not None and each.result.status == "failed"]
        return (failed[-1].result.reason or "it failed") if failed else None

    def clear_unfinished(self, key: str) -> None:
        """Remove what the study left of a run, before it is carried out anew."""
        for run in self.unfinished.pop(key, ()):
            if _MADE.fullmatch(run.name):
                shutil.rmtree(run.path, ignore_errors=True)


@final
@dataclass(frozen=True)
class _Note:
    """What a study's folder says of itself."""

    study: str
    variant: Variant
    set: dict[str, Any]


@final
class StudyDir:
    """Where the runs of a study and its report are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / RUNS
        self._note = path / NOTE
        self._lock = path / "study.lock"

    def note(self, name: str, variant: Variant, fields: Fields) -> None:
        """Write down which study the folder is of."""
        text = json.dumps({"study": name, "variant": variant, "set": fields}, indent=2)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(self._note, f"{text}\n")
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def noted(self) -> tuple[str, Variant, Fields]:
        """Read which study it is."""
        try:
            told = schema.read(_Note, untrusted.read_json(self._note))
        except (OSError, ValueError) as error:
            raise StoreError(f"{self._note} cannot be read: {error}") from error
        return told.study, told.variant, told.set

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Be the only process that carries this study out; the lock ends with the process."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise StoreError(f"{self.path}: another process carries this study out") from None
        finally:
            os.close(lock)

    def contents(self) -> Contents:
        """Look through the runs that are there."""
        contents = Contents()
        for path in sorted(self.runs.iterdir()) if self.runs.is_dir() else ():
            run = RunDir(path)
            key = _key(run)
            stored = _stored(run)
            if key is None or (stored is None and run.is_sealed):
                continue  # it may have finished, for another version or from another directory
            if stored is not None and stored.is_finished:
                contents.finished.setdefault(key, stored)
            elif not run.driver_is_alive():
                contents.unfinished.setdefault(key, []).append(run)
        return contents


def seconds_of(run: RunDir) -> float:
    """How long a run took, from its spec's writing to its seal's."""
    return run.result.stat().st_mtime - run.spec.stat().st_mtime


def _stored(run: RunDir) -> StoredRun | None:
    """Read a sealed run; None where there is no seal, or none that can be read."""
    try:
        return StoredRun.read(run) if run.is_sealed else None
    except StoreError:
        return None


def _key(run: RunDir) -> str | None:
    """Tell which run it is; None where its spec is not there, or cannot be read."""
    try:
        return key_of_table(run.read_spec())
    except StoreError:
        return None
