"""The loop of a worker: what it asks of its member, and in which order."""

import pytest

import paceline
from paceline.clusters.base import Job
from paceline.clusters.inline import Inline
from paceline.engine.conductor import Conductor
from paceline.engine.ensemble import RunToLead
from paceline.outcome.outcome import Outcome
from paceline.store.runs import create_run
from paceline.strategies.base import Member, Strategy
from paceline.strategies.local import Single, Solo
from paceline.strategies.parameter_server.describe import PsAsync
from paceline.testing import Moons
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

    def settle(self):
        self.calls.append(("settle", None))


CALLS = []


def calls_of(strategy, tmp_path):
    """What was asked while training: before workers settle, for the evaluation."""
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
    return CALLS[: names.index("settle")]


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


@pytest.mark.parametrize("strategy", [Solo(), PsAsync()], ids=lambda each: each.name)
def test_any_worker_can_evaluate_and_save_where_it_is_the_first_that_is_there(strategy, tmp_path):
    spec = paceline.RunSpec(
        workload=Moons(),
        strategy=strategy,
        cluster=Inline(),
        num_workers=2,
        worker_steps=20,
        eval_every=10,
    ).checked()
    run_dir = create_run(tmp_path, "x", spec=spec.toml(), facts={}, environment={})
    seats = [seat for seat in spec.seats() if seat.name in ("worker1", "server0")]
    job = Job(
        run_dir=run_dir.path, run_key=bytes(16), entry="paceline.engine.worker:main",
        seats=seats, threads=1, text=spec.toml(), spec=spec,
    )  # fmt: skip
    outcome, crew = Outcome(), Inline().start(job)
    run = RunToLead(
        spec=spec, order=spec.check_data(), lines=crew.lines, seats=seats, run_dir=run_dir,
        outcome=outcome, began_s=0.0,
    )  # fmt: skip
    conductor = Conductor(run)
    while not conductor.is_over:
        conductor.attend(0.1)
        for departure in crew.departures():
            conductor.left(departure)
    crew.end()
    assert (outcome.status, outcome.reason) == ("finished", None)
    assert [row["progress"] for row in outcome.evaluations] == [10, 20]
    assert run_dir.model.is_file()
    run_dir.let_go()
