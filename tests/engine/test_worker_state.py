"""Every strategy, saved in the middle and continued in new seats: what it would have been."""

import random
from collections.abc import Mapping
from itertools import cycle, islice

import numpy as np
import pytest
import torch
from torch import nn

import paceline
from paceline.comm import words
from paceline.engine.worker_state import worker_state
from paceline.errors import StateError
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.strategies.local import Single, Solo
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from paceline.testing import Flawed, Moons
from paceline.testing.states import assert_equal
from paceline.testing.strategies import OPTIMIZERS
from paceline.training.optim import Adam, AdamW, Sgd
from paceline.training.random_numbers import RandomNumbers
from paceline.training.schedules import Cosine
from paceline.training.state import copied
from paceline.workloads.base import Workload
from paceline.workloads.libsvm import LogisticLibsvm
from paceline.workloads.synthetic import Synthetic
from tests.seats import seated, through_files

SPARSE = Synthetic(rows=300, features=60, nonzeros=4)
TIMED = ("times_last", "last")  # who came last is a matter of time


def spec_of(strategy, **fields):
    given = {
        "workload": Moons(rows=100),
        "num_workers": 1 if strategy == Single() else 3,
        "batch": 4,
        "worker_steps": 10_000,
        "optimizer": Adam(lr=0.01),
        "record": paceline.Record(tensorboard=False, monitor=False, steps=False, interval_s=1e-6),
    }
    return paceline.RunSpec(strategy=strategy, **(given | fields))


def seen(state, ignored):
    """Leave out what is ignored, and what says how long something took: that never repeats."""
    return {
        name: seen(value, ignored) if isinstance(value, Mapping) else value
        for name, value in state.items()
        if not name.endswith(("_ns", "_s")) and name not in (*TIMED, *ignored)
    }


def assert_continues(spec, tmp_path, before, after, ignored=(), **options):
    """Make the steps of `before` and `after` with new seats in between, and without."""
    if spec.num_workers > 1:  # in one process they share its random numbers
        ignored = (*ignored, "random")
    drawn = copied(RandomNumbers().state())
    with seated(spec, **options) as seats:
        seats.start()
        before(seats)
        after(seats)
        wanted = [copied(state) for state in seats.states()]
    RandomNumbers().load(drawn)
    with seated(spec, **options) as first:
        first.start()
        before(first)
        states = through_files(first.states(), tmp_path)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - a process that resumes has drawn others
    with seated(spec, **options) as second:
        second.load(states)
        second.start()
        after(second)
        continued = [copied(state) for state in second.states()]
    for ours, theirs, saved in zip(continued, wanted, states, strict=True):
        assert_equal(seen(ours, ignored), seen(theirs, ignored))
        with pytest.raises(AssertionError):  # something was learnt after the break
            assert_equal(seen(ours, ignored), seen(saved, ignored))


def test_who_came_later_goes_on_from_where_it_was_in_the_data(tmp_path):
    spec = spec_of(Single(), worker_steps=30)
    with seated(spec) as first:
        (worker,) = first.workers
        worker._enter(words.Start(0.0, is_late=True, num_done=20))
        first.step([0] * 4)
        states = through_files(first.states(), tmp_path)
        wanted, _ = worker.session.next_batch()
    with seated(spec) as second:
        second.load(states)
        (worker,) = second.workers
        assert worker.session.num_steps == 4
        taken, _ = worker.session.next_batch()
        assert torch.equal(taken, wanted)
    with seated(spec) as third:
        third.load(states)
        num_steps = 0
        while not third.workers[0].session.last:
            third.step([0])
            num_steps += 1
        assert num_steps == 30 - 20 - 4


class Noisy(Workload):
    """A model with all that is neither a parameter nor the same in each step."""

    def model(self):
        return nn.Sequential(
            nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.4), nn.Linear(16, 2)
        )

    def data(self, split, dtype):
        return Moons(rows=100).data(split, dtype)

    def loss(self, model, batch):
        inputs, classes = batch
        scale = random.gauss(1.0, 0.1) * np.random.normal(1.0, 0.1)  # noqa: NPY002
        return super().loss(model, (inputs * scale, classes))


def together(count):
    return lambda seats: seats.step_together(count)


def in_turns(ranks):
    return lambda seats: seats.step(ranks)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_one_worker_with_every_optimizer(optimizer, tmp_path):
    spec = spec_of(Single(), optimizer=optimizer)
    assert_continues(spec, tmp_path, together(30), together(40))


@pytest.mark.parametrize("shared", [False, True], ids=["messages", "memory"])
@pytest.mark.parametrize(
    "strategy",
    [Solo(), Ring(bucket_bytes=100), PsSync(), PsSync(servers=2, chunk_bytes=100)],
    ids=str,
)
def test_strategies_that_repeat(strategy, shared, tmp_path):
    spec = spec_of(strategy, optimizer=AdamW(schedule=Cosine(warmup_steps=5, end_step=18)))
    assert_continues(spec, tmp_path, together(7), together(9), shared=shared)


@pytest.mark.parametrize("shared", [False, True], ids=["messages", "memory"])
@pytest.mark.parametrize("strategy", [PsAsync(servers=2), PsSsp(staleness=1), PsSsp()], ids=str)
def test_asynchronous_strategies_where_the_order_of_pushes_is_given(strategy, shared, tmp_path):
    spec = spec_of(strategy)
    turns = list(islice(cycle([0, 1, 2]), 40))
    before, after = in_turns(turns[:20]), in_turns(turns[20:])
    assert_continues(spec, tmp_path, before, after, shared=shared)


@pytest.mark.parametrize("shared", [False, True], ids=["messages", "memory"])
def test_a_worker_that_has_to_wait_is_released_after_the_break(shared, tmp_path):
    """Saved where worker 0 waits for both others, and where it waits no more but was not told."""
    spec = spec_of(PsSsp(staleness=0, servers=2))
    waits, free = in_turns([0, 1, 2, 0]), in_turns([0, 1, 2, 0, 1, 2])
    assert_continues(spec, tmp_path, waits, in_turns([1, 2, 0, 1, 2]), shared=shared)
    assert_continues(spec, tmp_path, free, in_turns([2, 0, 1]), shared=shared)


@pytest.mark.parametrize("shared", [False, True], ids=["messages", "memory"])
@pytest.mark.parametrize(
    "strategy",
    [PsSync(servers=2), PsAsync(servers=2, prefetch=True), PsSync(sparse=False)],
    ids=str,
)
def test_tables_of_rows_on_servers(strategy, shared, tmp_path):
    spec = spec_of(strategy, workload=SPARSE, num_workers=2)
    turns = [0, 1] * 12
    before, after = in_turns(turns[:10]), in_turns(turns[10:])
    if isinstance(strategy, PsSync):
        before, after = together(5), together(6)
    assert_continues(spec, tmp_path, before, after, shared=shared)


@pytest.mark.parametrize("strategy", [Single(), Solo(), Single(sparse=False)], ids=str)
def test_tables_of_rows_of_a_worker_s_own(strategy, tmp_path):
    spec = spec_of(strategy, workload=SPARSE, num_workers=1, optimizer=Sgd(momentum=0.9))
    assert_continues(spec, tmp_path, together(80), together(9))  # past the first epoch


@pytest.mark.parametrize("strategy", [Single(), Ring(), Ddp()], ids=str)
def test_random_numbers_and_statistics_of_batches(strategy, tmp_path):
    """Under ddp too: with one worker, torch's group has a single process."""
    spec = spec_of(strategy, workload=Noisy(), num_workers=1)
    assert_continues(spec, tmp_path, together(13), together(15))


def test_steps_that_were_refused(tmp_path):
    spec = spec_of(Single(), workload=Flawed(rows=40, flawed_rows=6), most_refused=30)
    assert_continues(spec, tmp_path, together(13), together(17))


def test_rows_that_stay_in_their_file(tmp_path):
    file = tmp_path / "rows.libsvm"
    drawn = random.Random(0)
    rows = [f"{1 - number % 3 % 2} {drawn.randint(1, 40)}:1 41:0.5" for number in range(200)]
    rows[70] = "not a row"
    file.write_text("\n".join(rows) + "\n")
    workload = LogisticLibsvm(
        train=file, data_dir=tmp_path, memory_bytes=1, num_features=41, bad_rows="skip"
    )
    spec = spec_of(Single(), workload=workload)
    assert_continues(spec, tmp_path, together(57), together(20))


def test_rows_fetched_ahead_are_part_of_the_state():
    with seated(spec_of(PsAsync(prefetch=True), workload=SPARSE, num_workers=1)) as seats:
        seats.start()
        seats.step([0, 0])
        ahead = seats.states()[0]["member"]["link"]["ahead"]
        assert len(ahead["rows"]) == len(ahead["server0"]) > 0


def test_the_state_of_another_run_is_named_by_its_field():
    with seated(spec_of(Single())) as seats:
        seats.step_together(3)
        saved = copied(worker_state(seats.workers[0]))
    others = {
        "member.update.optimizer = 'adam': expected 'sgd'": {"optimizer": Sgd()},
        r"member.update.slot0 = float32 \(82,\): expected float64 \(82,\)": {"dtype": "float64"},
        r"member.update.slot0 = float32 \(82,\): expected float32 \(114,\)": {"workload": Noisy()},
        "order.num_rows = 100: expected 120": {"workload": Moons(rows=120)},
        "order.seed = 0: expected 7": {"seed": 7},
        "order.batch = 4: expected 8": {"batch": 8},
    }
    for message, fields in others.items():
        other = spec_of(Single(), **fields)
        with seated(other) as seats, pytest.raises(StateError, match=message):
            seats.load([saved])


def test_a_state_is_taken_between_two_steps():
    with seated(spec_of(Single())) as seats:
        session = seats.workers[0].session
        session.next_batch()
        with pytest.raises(StateError, match="session = 'compute': a state is taken between"):
            worker_state(seats.workers[0])
