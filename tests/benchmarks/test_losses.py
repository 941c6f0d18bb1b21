"""When a loss counts as named in time, and what becomes of one that cannot be measured."""

import losses
import pytest
from kept import Kept

from tests.machines.losses import NAMED, is_named


@pytest.mark.parametrize(
    "line",
    [
        "error: node1 (b) is lost: its agent is gone, or was cut off",
        "error: Ray at auto: cannot place the nodes: asked for 3; free are CPU 2; not reached: b",
        "error: Ray at auto: 3 nodes were asked for, and it has 2 with CPUs; gone: b; if it can",
    ],
)
def test_an_error_that_names_the_host(line):
    assert is_named(line)


@pytest.mark.parametrize(
    "line",
    [
        "starting: waiting for node1 (b)",
        "error: Ray at auto: 3 nodes were asked for, and it has 2 with CPUs; if it can add some",
        "error: node2 (c) is lost: its agent is gone, or was cut off",
    ],
)
def test_a_line_that_does_not(line):
    assert not is_named(line)


def measured(monkeypatch, *found):
    """Have losses come to these, one after the other."""
    left = [*found]

    def lose(*_):
        each = left.pop(0)
        if isinstance(each, Exception):
            raise each
        return each

    monkeypatch.setattr(losses, "lose", lose)


@pytest.mark.parametrize(("kind", "is_in_time"), [("host killed", True), ("agent killed", False)])
def test_an_agent_is_to_be_named_within_five_seconds(kind, is_in_time, monkeypatch):
    assert NAMED[kind].within_s == (10 if is_in_time else 5)
    measured(monkeypatch, [7.0, ""])
    assert losses._is_kept("ssh", kind, 1, Kept(None)) == is_in_time


def test_one_that_fails_is_a_miss_and_the_next_is_measured(tmp_path, monkeypatch, capsys):
    measured(monkeypatch, AssertionError("it never came"), [1.0, ""])
    file = tmp_path / "losses.jsonl"
    assert not losses._is_kept("ssh", "link cut", 2, Kept(file))
    said = capsys.readouterr().out
    assert "ssh, link cut, 0: FAILED" in said
    assert "median   1.0 s" in said
    assert len(file.read_text().splitlines()) == 1
