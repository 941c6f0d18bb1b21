"""Tests of the conductor start no process, and are quick: those with seats of `fakes.py`."""

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

MOST_CPU_S = 10.0
"""Of all tests of one file, on however slow a machine."""


def has_fake_seats(request: pytest.FixtureRequest) -> bool:
    """Whether a file of tests takes anything from `fakes.py`."""
    places = {getattr(each, "__module__", None) for each in vars(request.module).values()}
    return "tests.engine.fakes" in places


@pytest.fixture(autouse=True)
def no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a test of the conductor that starts a process."""
    if has_fake_seats(request):
        for owner, name in [(os, "fork"), (os, "posix_spawn"), (subprocess.Popen, "__init__")]:
            monkeypatch.setattr(owner, name, _refuse)


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a test of the conductor started a process")


@pytest.fixture(scope="module", autouse=True)
def is_quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bound what all tests of a file cost the processor, if they are of the conductor."""
    began_s = time.process_time()
    yield
    took_s = time.process_time() - began_s
    assert took_s < MOST_CPU_S or not has_fake_seats(request)
