"""Run a program with a deadline, in a folder of its own, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from paceline.system import linux

_PATIENCE_S = 5.0


class DidNotRun(Exception):
    """A program that could not be started, failed, or took too long; says why."""


class TookTooLong(DidNotRun):
    """A program that ran, and had not ended when its time was over."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(f"not done after {deadline_s:.0f} s")
        self.deadline_s = deadline_s


def last_line(
    command: Sequence[str], deadline_s: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a program prints last, a JSON object.

    Its home and its temporary files are in a folder that is removed. Whatever it has started is
    ended, however it ended itself: orphans are handed to us, so none is missed.
    """
    linux.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as folder:
        try:
            text = _output(command, deadline_s, Path(folder), environment or {})
        finally:
            end_children()
    return _object(text)


def _output(
    command: Sequence[str], deadline_s: float, folder: Path, environment: Mapping[str, str]
) -> str:
    out, errors = folder / "out.log", folder / "errors.log"
    home = {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with out.open("w") as stdout, errors.open("w") as stderr:
        try:
            # Files, not pipes: a process that outlives the program would keep a pipe open.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env={**os.environ, **home, **environment},
            )
        except OSError as error:
            raise DidNotRun(f"{command[0]}: {error.strerror}") from error
        try:
            code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise TookTooLong(deadline_s) from None
    if code:
        raise DidNotRun(_why(errors.read_text(errors="replace"), code))
    return out.read_text()


def end_children() -> None:
    """Kill every process below this one, by its id, until there is none."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, _PATIENCE_S)


def _why(errors: str, code: int) -> str:
    """The last line of what a program complained about."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {code}"


def _object(text: str) -> dict[str, Any]:
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError):
        found = None
    if not isinstance(found, dict):
        raise DidNotRun("it printed no result")
    return found
