"""A store that does not answer is noticed, and the driver never waits for it while it trains."""

import json
import sys
import threading
import time

import pytest

from paceline.clusters.agents import json_process
from paceline.clusters.agents.torchrun import store, store_process
from paceline.clusters.agents.torchrun.place import RankPlace
from paceline.clusters.agents.torchrun.store import Store
from paceline.errors import RunError

PLACE = RankPlace(rank=1, num_nodes=2, store_host="10.0.0.1", store_port=29500, run_id="x")
PATIENCE_S = 30


@pytest.fixture
def store_of(monkeypatch):
    """Make a store whose process says these lines, the first at once, then after each request."""
    made = []

    def make(*answers: list[dict]) -> Store:
        script = (
            "import json, sys\n"
            "for lines in json.loads(sys.argv[1]):\n"
            "    for each in lines: print(json.dumps(each), flush=True)\n"
            "    sys.stdin.readline()\n"
        )
        command = [sys.executable, "-c", script, json.dumps(answers)]
        monkeypatch.setattr(json_process, "own_command", lambda *_: command)
        made.append(Store(PLACE, 1.0))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_while_the_store_answers_a_key_is_waited_for(store_of):
    waiting = [{"waiting_s": 0.3}, {"waiting_s": 0.2}]
    found = store_of([{}], [*waiting, {"value": "aGVsbG8="}])
    assert found.wait("key", None) == b"hello"


def test_one_whose_host_is_gone_is_given_up_and_named(store_of):
    gone = store_of([{}], [{"waiting_s": 1.0}, {"waiting_s": 5.1}])
    with pytest.raises(RunError, match=r"10\.0\.0\.1 port 29500: .* 5 s: its host is gone"):
        gone.wait("key", None)


def test_a_glance_does_not_wait_and_shows_what_has_come(store_of, monkeypatch):
    monkeypatch.setattr(store, "_GLANCE_S", 0.0)
    found = {"found": {"a": "d2h5"}}
    slow = store_of([{}], [{"value": None}], [{"waiting_s": 40.0}, found])
    assert slow.look("a") is None
    deadline_s = time.monotonic() + PATIENCE_S
    assert slow.glance("sign", ["a", "b"]) == {}
    while not (found := slow.glance("sign", ["a", "b"])):
        assert time.monotonic() < deadline_s
    assert found == {"a": b"why"}


class Stalled:
    """A store whose host has lost its power."""

    def __init__(self) -> None:
        self.comes_back = threading.Event()

    def check(self, _keys) -> bool:
        self.comes_back.wait(PATIENCE_S)
        return True

    def get(self, _key) -> bytes:
        return b"value"


def test_whoever_waits_hears_how_long_the_store_has_said_nothing(monkeypatch):
    said, many = [], threading.Event()

    def say(word) -> None:
        said.append(word)
        if len(said) == 3:
            many.set()

    monkeypatch.setattr(store_process, "_TELL_S", 0.01)
    monkeypatch.setattr(store_process, "_say", say)
    stalled = Stalled()
    session = store_process._Session(stalled)
    session.waits.renew()
    asked = {"verb": "wait", "key": "key", "timeout_s": None, "pulse": None}
    asking = threading.Thread(target=session.answer, args=[asked], daemon=True)
    asking.start()
    assert many.wait(PATIENCE_S)
    assert said[0]["waiting_s"] < said[2]["waiting_s"]
    stalled.comes_back.set()
    asking.join(PATIENCE_S)
    session.waits.end()
    number = len(said)
    assert not threading.Event().wait(0.05)
    assert len(said) == number
