"""Starts compared by turns: who begins, what is said of them, and a real pair."""

import sys
from typing import Any

import pytest
import start_up
from before_after import Checkout


class Side:
    """A checkout that needs no process."""

    def __init__(self, name: str, told: list[str], startup_s: float) -> None:
        self.name = name
        self.told = told
        self.startup_s = startup_s

    def run(self, table: dict[str, Any]) -> dict[str, Any]:
        assert table["strategy"] == "ps-sync"
        self.told.append(self.name)
        return {"startup_s": self.startup_s}


def test_sides_begin_by_turns():
    told: list[str] = []
    sides: Any = [Side("before", told, 2.0), Side("after", told, 3.0)]
    assert start_up.by_turns(sides, 3) == [[2.0] * 3, [3.0] * 3]
    assert told == ["before", "after", "after", "before", "before", "after"]


def test_who_is_slower_every_time_is_slower():
    lines, is_met = start_up.compared([2.0, 2.2, 2.1], [2.5, 2.75, 2.3])
    assert not is_met
    assert lines[0] == "before: 2.100 s (2.000 to 2.200)"
    assert lines[1] == "after: 2.500 s (2.300 to 2.750)"
    assert lines[2].endswith("1.2500 (1.0952 to 1.2500, n=3); at most 1 wanted: MISSED")


def test_who_is_slower_now_and_then_is_not():
    lines, is_met = start_up.compared([2.0, 2.2, 2.1], [2.5, 2.1, 2.2])
    assert is_met
    assert lines[2].endswith(": met")


@pytest.mark.thorough
def test_one_checkout_against_itself():
    side = Checkout(sys.executable, script=start_up.__file__)
    assert 0 < side.run(start_up.PAIR)["startup_s"] < 60
    side.end()
