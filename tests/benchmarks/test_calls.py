"""Calls per step: whose are counted, which of them belong to a step, what is told of two sides."""

import sys
from collections import Counter

import pytest
from before_after import CASES
from calls import count, own, per_step, told


def test_only_our_own_functions_are_counted_wherever_their_file_lies():
    found = own(
        {
            "/a/src/paceline/engine/session.py:exchange": 3,
            "/b/src/paceline/session.py:exchange": 2,
            "/a/lib/site-packages/paceline/torch/nn.py:forward": 9,
            "/usr/lib/python3.11/json/encoder.py:encode": 9,
        }
    )
    assert found == {"session.exchange": 5}


def test_a_function_that_a_step_does_not_always_call_is_left_out():
    few, many = Counter(step=10, row=4, build=70), Counter(step=110, row=8, build=70)
    assert per_step(few, many, 100) == {"step": 1.0}


def test_what_differs_is_named_and_what_does_not_is_not():
    before, after = {"a.same": 2.0, "b.gone": 1.0}, {"a.same": 2.1, "c.new": 3.0}
    assert list(told("ring", before, after)) == [
        "ring: 3.0 calls per step before, 5.1 after",
        "  +3.0 c.new",
        "  -1.0 b.gone",
    ]


@pytest.mark.thorough
def test_a_server_and_its_workers_count_the_same_twice():
    case = CASES["logistic, ps-async with 3 workers"]
    first, second = (count(sys.executable, case) for _ in range(2))
    assert first.keys() == second.keys() == {"worker", "server"}
    assert first["worker"]["session.exchange"] == second["worker"]["session.exchange"] == 1.0
    assert first["server"]["each.take"] == second["server"]["each.take"] == 1.0
