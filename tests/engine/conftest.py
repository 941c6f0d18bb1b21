"""Tests of the conductor start no process: those with seats of `fakes.py`."""

import os
import subprocess

import pytest


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
