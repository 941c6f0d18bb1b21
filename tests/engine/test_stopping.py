"""Being asked to stop: heard when there is time to listen, lost never."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from paceline.engine.stopping import StopRequests


def ask(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _handlers():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_interrupt_is_counted_and_raised_nowhere():
    with StopRequests() as requests:
        assert not requests.heard()
        ask(signal.SIGINT)
        ask(signal.SIGINT)
        assert [requests.heard() for _ in range(3)] == [True, True, False]


def test_afterwards_it_is_raised_again():
    with StopRequests():
        pass
    with pytest.raises(KeyboardInterrupt):
        ask(signal.SIGINT)


def test_a_handler_that_does_something_else_still_does_it():
    seen = []
    signal.signal(signal.SIGHUP, lambda number, _: seen.append(number))
    with StopRequests() as requests:
        ask(signal.SIGHUP)
        assert not requests.heard()
    assert seen == [signal.SIGHUP]


def test_what_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopRequests() as requests:
        ask(signal.SIGHUP)
        assert not requests.heard()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_thread_that_cannot_be_interrupted_may_listen():
    heard = []

    def listen():
        with StopRequests() as requests:
            heard.append(requests.heard())

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert heard == [False]


STORM = """
import signal
from paceline.engine.stopping import StopRequests
def interrupt(*_):
    asked.append(1)
    raise KeyboardInterrupt
asked = []
signal.signal(signal.SIGTERM, interrupt)
import os, threading
heard = 0
with StopRequests() as requests:
    sender = threading.Thread(target=lambda: [os.kill(os.getpid(), 15) for _ in range(2000)])
    sender.start()
    while sender.is_alive() or heard < len(asked):
        heard += requests.heard()
print(heard == len(asked) > 0)
"""


def test_none_is_lost_in_a_storm_of_them():
    done = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "True"
