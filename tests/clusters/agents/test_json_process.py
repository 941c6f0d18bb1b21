"""Words to and from a process of our own."""

from pathlib import Path

import pytest

from paceline.clusters.agents.json_process import JsonProcess
from paceline.system.waiting import Deadline


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    made = JsonProcess("tests.clusters.agents.echoing")
    yield made
    made.close(10.0)


@pytest.mark.timeout(60)
def test_words_come_whole_and_in_their_order(process: JsonProcess):
    process.say({"number": 1})
    process.say({"number": 2})
    assert [process.hear(30.0) for _ in range(2)] == [{"number": 1}, {"number": 2}]
    assert process.hear(0.0) is None
    assert process.exit_code() is None


@pytest.mark.timeout(60)
def test_one_that_has_ended_says_no_more_and_may_be_spoken_to(process: JsonProcess):
    process.say({"end": True})
    with pytest.raises(EOFError):
        process.hear(30.0)
    deadline = Deadline(30.0)
    while process.exit_code() is None and deadline.left_s:
        process.say({"number": 3})
    assert process.exit_code() == 0
    process.say({"number": 4})
    process.close(1.0)
