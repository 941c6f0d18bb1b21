"""An agent whose driver is gone before it has said anything does not wait for it."""

import os
import sys

import pytest

from paceline.cli import join
from paceline.errors import RunError


@pytest.fixture
def sender(monkeypatch):
    """The other end of standard input."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as stdin, os.fdopen(theirs, "w") as sender:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield sender


def test_who_was_to_invite_is_gone(sender):
    sender.close()
    with pytest.raises(RunError, match="standard input ended without an invitation"):
        join.join("-")


def test_who_was_to_invite_says_nothing(sender, monkeypatch):
    monkeypatch.setattr(join, "_PATIENCE_S", 1)
    with pytest.raises(RunError, match="no invitation came on standard input within 1 s"):
        join.join("-")


def test_what_came_is_no_invitation(sender):
    sender.write("{}\n")
    sender.flush()
    with pytest.raises(RunError, match="invitation"):
        join.join("-")
