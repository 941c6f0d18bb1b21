"""A measurement that fails is told, and the next one is still carried out."""

from __future__ import annotations

import contextlib
import subprocess
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

Found = TypeVar("Found")

_MOST_TOLD = 4000
_LEAVING_S = 10.0


class Failed(Exception):
    """A run that was to be measured did not come to its end."""


def tried(title: str, measure: Callable[[], Found]) -> Found | None:
    """Measure; gives None, and says why, if that failed. Ctrl-C ends the benchmark."""
    try:
        return measure()
    except Exception as error:  # noqa: BLE001 - whatever it was, others can still be measured
        if not isinstance(error, Failed):
            traceback.print_exc()
        told = f"{type(error).__name__}: {error}"[-_MOST_TOLD:]
        print(f"{title}: FAILED: {told}", flush=True)
        return None


@contextlib.contextmanager
def ended(started: Collection[subprocess.Popen[str]]) -> Iterator[None]:
    """Kill, at the end of the block, those that go on: the next measurement is to be alone."""
    try:
        yield
    finally:
        for each in started:
            each.kill()
        for each in started:
            each.wait(_LEAVING_S)
