"""For all tests: one compute thread per process, and no property judged by its time.

A test that fails while the machine stood still is carried out again, and says so.
"""

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from tests.standstill import Standstills

# Before torch is imported: small tensors gain nothing from threads, and on a busy machine the
# threads wait for each other. Processes of a run are told their number by the run itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

hypothesis.settings.register_profile("paceline", deadline=None)
hypothesis.settings.load_profile("paceline")

# A shell that starts tests in the background has them ignore Ctrl-C, and all they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)

_STANDSTILLS = pytest.StashKey[Standstills]()
_MOST_TRIES = 3
_DONE_AGAIN = "done again"


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_STANDSTILLS] = Standstills()


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[_STANDSTILLS].close()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    *_, reports = _tries(item, nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _tries(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[list[pytest.TestReport]]:
    """Carry a test out, with what it shares with others made anew where it is done again."""
    standstills = item.config.stash[_STANDSTILLS]
    for number in range(1, _MOST_TRIES + 1):
        standstills.forget()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        yield reports
        if number == _MOST_TRIES or not any(each.failed for each in reports):
            return
        stood_s = standstills.newest()
        if not stood_s:
            return
        text = f"failed while this machine stood still for {max(stood_s):.1f} s: done again"
        item.user_properties.append((_DONE_AGAIN, text))
        item.session._setupstate.teardown_exact(None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, text in report.user_properties:
                    if name == _DONE_AGAIN:
                        terminalreporter.line(f"{report.nodeid} {text}")
