"""Waiting no longer than a given time."""

import subprocess

from paceline.system import waiting
from paceline.system.waiting import Deadline, end_of, time_left


def test_what_is_left_shrinks_until_nothing_is(monkeypatch):
    moments = iter([10.0, 10.5, 11.0, 12.25])
    monkeypatch.setattr(waiting, "monotonic", lambda: next(moments))
    assert list(time_left(2.0)) == [1.5, 1.0]


def test_the_time_runs_from_the_first_look_on(monkeypatch):
    moments = iter([10.0, 10.5])
    monkeypatch.setattr(waiting, "monotonic", lambda: next(moments))
    left = time_left(1.0)
    assert next(left) == 0.5


def test_no_time_is_none():
    assert list(time_left(0.0)) == []


def test_one_that_never_comes_leaves_all_the_time_there_is():
    assert Deadline(None).left_s == float("inf")


def test_one_that_has_passed_leaves_nothing():
    assert Deadline(-1.0).left_s == 0.0


def test_a_process_that_reads_to_the_end_ends_by_itself_and_one_that_does_not_is_ended():
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    end_of(reader, 60.0)
    assert reader.returncode == 0
    sleeper = subprocess.Popen(["sleep", "600"])
    end_of(sleeper, 0.0)
    assert sleeper.returncode == -9
