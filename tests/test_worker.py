"""The loop of a worker: what it asks of its member, and in which order."""

import pytest

import paceline
from paceline.clusters.inline import Inline
from paceline.strategies.base import Member, Strategy
from paceline.strategies.local import Single
from paceline.workloads.synthetic import Synthetic

STEPS = 4
SPARSE = Synthetic(rows=100, features=50, nonzeros=3)


class Noted(Strategy):
    """`single`, with a note of every call."""

    ahead: bool = False

    @property
    def moves_rows(self) -> bool:
        return True

    def join(self, place):
        return _Noted(Single().join(place), self.ahead)


class _Noted(Member):
    def __init__(self, single, ahead):
        self.single = single
        self.fetches_ahead = ahead
        self.calls = CALLS
        self.calls.clear()

    def begin(self, *, last):
        self.calls.append(("begin", None))

    def pull(self, rows):
        self.calls.append(("pull", rows))
        self.single.pull(rows)

    def fetch_ahead(self, rows):
        self.calls.append(("fetch_ahead", rows))

    def exchange(self, *, last):
        self.calls.append(("exchange", None))
        self.global_steps += 1
        return self.single.exchange(last=last)

    def refresh(self):
        self.calls.append(("refresh", None))


CALLS = []


def calls_of(strategy, tmp_path):
    """What was asked while training: before the parameters are refreshed, for the evaluation."""
    spec = paceline.RunSpec(
        workload=SPARSE,
        strategy=strategy,
        cluster=Inline(),
        steps=STEPS,
        batch=5,
        record=paceline.Record(model=False, monitor=False, tensorboard=False),
    )
    paceline.run(spec, out=tmp_path)
    names = [name for name, _ in CALLS]
    return CALLS[: names.index("refresh")]


@pytest.mark.parametrize(
    ("ahead", "each"),
    [
        (False, ["begin", "pull", "exchange"]),
        (True, ["begin", "pull", "fetch_ahead", "exchange"]),
    ],
)
def test_rows_are_pulled_when_there_is_leave_to_start(ahead, each, tmp_path):
    calls = calls_of(Noted(ahead=ahead), tmp_path)
    assert [name for name, _ in calls] == each * STEPS


def test_what_is_fetched_ahead_is_what_the_next_step_pulls(tmp_path):
    calls = calls_of(Noted(ahead=True), tmp_path)
    pulled = [rows for name, rows in calls if name == "pull"]
    ahead = [rows for name, rows in calls if name == "fetch_ahead"]
    assert all(map(lambda one, other: one is other, ahead, pulled[1:]))
    assert len(ahead) == len(pulled) == STEPS
