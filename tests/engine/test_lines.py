"""How the driver hears many lines: all that was said, nobody starved, the last words too."""

from collections.abc import Iterator

import pytest

from paceline.comm.line import Garbled
from paceline.comm.words import Abort, Failed, Finish, Paused, Saved, Word
from paceline.engine.lines import Lines
from tests.engine.fakes import FakeLine


@pytest.fixture
def ends() -> Iterator[dict[str, FakeLine]]:
    made = {"worker0": FakeLine(), "worker1": FakeLine(), "worker2": FakeLine(reads_ahead=True)}
    yield made
    for each in made.values():
        each.close()


def heard(lines: Lines) -> list[tuple[str, Word]]:
    return list(lines.hear(0))


def test_all_that_was_said_is_heard_in_order(ends):
    lines = Lines(ends)
    for name in ends:
        ends[name].say(Paused(1), Paused(2), Saved())
    said = heard(lines)
    assert len(said) == 9
    for name in ends:
        assert [word for who, word in said if who == name] == [Paused(1), Paused(2), Saved()]
    assert heard(lines) == []


@pytest.mark.parametrize("talker", ["worker0", "worker2"])
def test_one_that_talks_without_end_does_not_keep_others_from_being_heard(ends, talker):
    lines = Lines(ends)
    ends[talker].say(*(Paused(number) for number in range(200)))
    ends["worker1"].say(Saved())
    first = heard(lines)
    assert ("worker1", Saved()) in first
    assert 1 < len(first) < 150
    rest = [word for _ in range(5) for word in heard(lines)]  # though nothing more comes
    numbers = [word.progress for _, word in first + rest if isinstance(word, Paused)]
    assert numbers == list(range(200))


def test_what_nobody_says_is_a_failure_and_nothing_more_is_heard(ends):
    lines = Lines(ends)
    ends["worker0"].say(Garbled("it said what is never said there"), Paused(1))
    assert heard(lines) == [("worker0", Failed("it said what is never said there"))]
    assert heard(lines) == []


def test_the_last_words_of_one_who_is_gone_are_heard_though_it_hears_nothing(ends):
    lines = Lines(ends)
    ends["worker0"].say(Failed("x"))
    ends["worker0"].leave()
    lines.tell_all(Finish())
    assert ends["worker0"].told == []
    assert ends["worker1"].told == [Finish()]
    assert heard(lines) == [("worker0", Failed("x"))]
    assert heard(lines) == []
    assert lines.receive("worker0") is None


def test_after_the_last_word_nobody_is_told_anything_and_all_are_heard(ends):
    lines = Lines(ends)
    lines.tell_last(Abort("x"))
    lines.tell_all(Finish())
    lines.tell("worker1", Finish())
    assert [each.told for each in ends.values()] == [[Abort("x")]] * 3
    ends["worker1"].say(Saved())
    assert heard(lines) == [("worker1", Saved())]


def test_hearing_one_may_hang_up_another(ends):
    lines = Lines(ends)
    ends["worker0"].say(Saved())
    ends["worker1"].say(Saved())
    said = []
    for name, _ in lines.hear(0):
        said.append(name)
        lines.hang_up("worker1" if name == "worker0" else "worker0")
    assert len(said) == 1


def test_after_a_replacement_only_the_new_one_is_heard_and_told(ends):
    lines, again = Lines(ends), FakeLine()
    ends["worker0"].say(Paused(1))
    lines.replace("worker0", again)
    again.say(Paused(2))
    lines.tell("worker0", Finish())
    assert heard(lines) == [("worker0", Paused(2))]
    assert (ends["worker0"].told, again.told) == ([], [Finish()])
    again.close()
