"""Figures of a benchmark that go on where it was."""

import pytest
from kept import Kept


def measuring(*figures):
    """Give what measures these, one after the other, and no more."""
    left = [*figures]
    return lambda: left.pop(0)


def test_what_was_measured_is_not_measured_again(tmp_path):
    file = tmp_path / "build" / "kept.jsonl"
    assert Kept(file)("rate", measuring(2.5)) == 2.5
    assert Kept(file)("rate", measuring()) == 2.5
    assert Kept(file)("other", measuring([1.0, "left"])) == [1.0, "left"]


def test_each_repetition_is_kept_by_itself(tmp_path):
    file = tmp_path / "kept.jsonl"
    rate = Kept(file).repeated("rate", measuring(1, 2))
    assert [rate(), rate()] == [1, 2]
    again = Kept(file).repeated("rate", measuring(3))
    assert [again(), again(), again()] == [1, 2, 3]


def test_what_failed_is_measured_again(tmp_path):
    file = tmp_path / "kept.jsonl"
    with pytest.raises(IndexError):
        Kept(file)("rate", measuring())
    assert Kept(file)("rate", measuring(4)) == 4


def test_without_a_file_all_is_measured():
    assert Kept(None)("rate", measuring(1)) == 1
