"""Benchmarks measure in turn, survive a peer that does not run, and say what came out."""

from __future__ import annotations

import pytest
from bounded import DidNotRun
from trials import Trials, spread, table, take_turns


def silent(_: str) -> None:
    pass


class TestTakeTurns:
    def test_each_is_measured_once_a_repetition_and_another_begins(self):
        order = []

        def measure(name):
            order.append(name)
            return 1.0

        trials = take_turns(["a", "b", "c"], measure, 3, silent)
        assert order == [*"abc", *"bca", *"cab"]
        assert trials.rates == {"a": [1.0] * 3, "b": [1.0] * 3, "c": [1.0] * 3}

    def test_one_that_does_not_run_says_why_and_the_others_go_on(self):
        tried = []

        def measure(name):
            tried.append(name)
            if name == "broken":
                raise DidNotRun("No module named 'tensorflow'")
            return 2.0

        told = []
        trials = take_turns(["broken", "fine"], measure, 2, told.append)
        assert tried.count("broken") == 1
        assert trials.reasons == {"broken": "No module named 'tensorflow'"}
        assert trials.measured("fine") == [2.0, 2.0]
        assert told[0] == "1 of 2: broken: No module named 'tensorflow'"
        assert told[1] == "1 of 2: fine: 2"

    def test_an_error_of_our_own_is_not_hidden(self):
        with pytest.raises(ZeroDivisionError):
            take_turns(["a"], lambda _: 1 / 0, 1, silent)


class TestRatio:
    def test_it_is_formed_within_a_repetition(self):
        trials = Trials({"ours": [10.0, 40.0, 90.0], "peer": [1.0, 2.0, 3.0]})
        ratio = trials.ratio("ours", "peer")
        assert ratio is not None
        assert ratio.each == [10, 20, 30]
        assert ratio.median == 20

    def test_repetitions_where_one_did_not_run_are_left_out(self):
        trials = Trials({"ours": [10.0, 40.0], "peer": [5.0, None]})
        ratio = trials.ratio("ours", "peer")
        assert ratio is not None
        assert ratio.each == [2]

    def test_there_is_none_where_they_never_both_ran(self):
        assert Trials({"ours": [1.0], "peer": [None]}).ratio("ours", "peer") is None


class TestTable:
    def test_spread_gives_median_and_extremes(self):
        assert spread([3000.4, 1000.0, 2000.0]) == "2,000 (1,000 to 3,000, n=3)"
        assert spread([0.5], 2) == "0.50 (0.50 to 0.50, n=1)"

    def test_columns_are_aligned_markdown(self):
        assert table(("who", "rate"), [("a peer", "1"), ("b", "22")]).splitlines() == [
            "| who    | rate |",
            "| ------ | ---- |",
            "| a peer | 1    |",
            "| b      | 22   |",
        ]
