"""All workers settle together before anybody looks at the parameters: local SGD needs it."""

import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import paceline
from paceline.clusters.inline import Inline
from paceline.description import Count
from paceline.errors import Interrupted, SeatFailed
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.strategies.base import Member, Place, Strategy
from paceline.testing.strategies import assert_parameters_close, parameters_of
from paceline.training.optim import Sgd, Update

QUIET = paceline.Record(tensorboard=False, monitor=False)
ROWS, BATCH, WORKERS, RATE = 240, 4, 3, 0.05


class Slope(paceline.Workload):
    """One weight; the evaluation tells it."""

    def model(self) -> nn.Module:
        return nn.Linear(1, 1, bias=False)

    def data(self, split, dtype):
        inputs = torch.linspace(-1, 1, ROWS, dtype=torch.float64)[:, None]
        return paceline.Tensors(inputs.to(dtype), (3 * inputs + inputs.square()).to(dtype))

    def loss(self, model, batch):
        inputs, wanted = batch
        return (model(inputs) - wanted).square().mean()

    def metrics(self, model, batch):
        return {"weight": model.weight.mean(), "loss": self.loss(model, batch)}


class LocalSgd(Strategy):
    """Workers step by themselves and average their parameters now and then."""

    every: Count = 5
    """After how many steps they do. A run has a multiple of them."""

    @property
    def in_step(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    def join(self, place: Place) -> Member:
        return _LocalSgd(place, self.every)


class _LocalSgd(Member):
    def __init__(self, place: Place, every: int) -> None:
        self.place = place
        self.every = every
        self.parameters = place.replica.parameters
        self.update = Update(place.optimizer, self.parameters)
        self.global_steps = 0
        self.own = None
        self.wishes_last = False

    def begin(self, *, last: bool) -> None:
        if self.own is not None:  # the average was only to be looked at
            self.parameters.copy_(self.own)
            self.own = None

    def exchange(self, *, last: bool) -> bool:
        self.global_steps += 1
        self.update.apply(self.place.replica.gradients, self.global_steps)
        self.wishes_last |= last
        return self.global_steps % self.every == 0 and average(
            self.place, self.parameters, flag=self.wishes_last
        )

    def settle(self) -> None:
        self.begin(last=False)
        self.own = self.parameters.clone()
        average(self.place, self.parameters, flag=False)


def average(place: Place, values: torch.Tensor, *, flag: bool) -> bool:
    """Average values over all workers; gives whether any of them raised its flag."""
    channel, others = place.channel, [f"worker{rank}" for rank in range(1, place.num_workers)]
    if place.rank:
        channel.send("worker0", values, tag=flag)
        answer = channel.receive()
        values.copy_(answer.values)
        return bool(answer.tag)
    came = {each.sender: each for each in (channel.receive() for _ in others)}
    for name in others:
        values += came[name].values
        flag |= bool(came[name].tag)
    values /= place.num_workers
    for name in others:
        channel.send(name, values, tag=flag)
    return flag


def spec_of(strategy: Strategy, **fields) -> paceline.RunSpec:
    given = {
        "workload": Slope(),
        "strategy": strategy,
        "cluster": Inline(),
        "num_workers": WORKERS,
        "batch": BATCH,
        "worker_steps": 20,
        "dtype": "float64",
        "optimizer": Sgd(lr=RATE),
        "record": QUIET,
    }
    return paceline.RunSpec(**(given | fields))


def averages_by_hand(spec: paceline.RunSpec, first: float) -> list[float]:
    """The mean weight of all workers after each step of local SGD, written down anew."""
    inputs, wanted = spec.workload.data("train", torch.float64).columns
    streams = [spec.order_of(ROWS).batches(rank) for rank in range(WORKERS)]
    weights, means = [first] * WORKERS, [first]
    for number in range(1, 21):
        for rank, stream in enumerate(streams):
            rows = next(stream)
            x, y = inputs[rows], wanted[rows]
            weights[rank] -= RATE * float((2 * (weights[rank] * x - y) * x).mean())
        means.append(sum(weights) / WORKERS)
        if number % spec.strategy.every == 0:
            weights = [means[-1]] * WORKERS
    return means


def evaluations_of(result: paceline.Result) -> dict[int, float]:
    rows = StoredRun(RunDir(Path(result.run)), result).evaluations.to_dicts()
    return {row["progress"]: row["weight"] for row in rows}


class TestLocalSgd:
    def test_the_average_is_evaluated_and_saved(self, tmp_path):
        spec = spec_of(LocalSgd(), eval_every=7)
        result = paceline.run(spec, out=tmp_path)
        torch.manual_seed(spec.seed)
        means = averages_by_hand(spec, Slope().model().double().weight.item())
        found = evaluations_of(result)
        assert list(found) == [7, 14, 20]
        assert found == pytest.approx({at: means[at] for at in found}, abs=1e-12)
        (saved,) = parameters_of(result).values()
        assert saved.item() == pytest.approx(means[20], abs=1e-12)

    def test_evaluations_do_not_change_what_is_learnt(self, tmp_path):
        plain = paceline.run(spec_of(LocalSgd()), out=tmp_path)
        looked = paceline.run(spec_of(LocalSgd(), eval_every=3), out=tmp_path)
        assert_parameters_close(plain, looked, tolerance=0.0)


class Uneven(Strategy):
    """Workers that end one after the other, and wait for each other only when they settle."""

    fails: bool = False
    """Whether one raises there, while the others wait."""

    @property
    def counts_steps(self) -> bool:
        return False

    def join(self, place: Place) -> Member:
        return _Uneven(place, fails=self.fails)


SETTLED: list[int] = []


class _Uneven(Member):
    global_steps = None

    def __init__(self, place: Place, *, fails: bool) -> None:
        self.place = place
        self.fails = fails
        self.num_steps = 0
        SETTLED.clear()

    def exchange(self, *, last: bool) -> bool:
        self.num_steps += 1
        return last or self.num_steps == 6 * (1 + self.place.rank)

    def settle(self) -> None:
        if self.fails and self.place.rank == 1:
            raise RuntimeError("cannot settle")
        average(self.place, self.place.replica.parameters, flag=False)
        SETTLED.append(self.place.rank)


def times_settled() -> list[int]:
    return [SETTLED.count(rank) for rank in range(WORKERS)]


class TestEveryWorkerSettles:
    def test_those_that_have_ended_too(self, tmp_path):
        spec = spec_of(Uneven(), worker_steps=100, eval_every=5)
        result = paceline.run(spec, out=tmp_path)
        assert [each.worker_steps for each in result.workers] == [6, 12, 18]
        # After 5 steps of all, after 10 of two, after 15 of one; at the end to save, to evaluate.
        assert list(evaluations_of(result)) == [5, 10, 15, 18]
        assert times_settled() == [5, 5, 5]

    def test_where_a_target_ends_the_run(self, tmp_path):
        target = paceline.Target.parse("weight>=-100")
        spec = spec_of(Uneven(), worker_steps=100, eval_every=5, target=(target,))
        result = paceline.run(spec, out=tmp_path)
        assert [each.worker_steps for each in result.workers] == [5, 5, 5]
        assert times_settled() == [2, 2, 2]

    def test_where_the_user_stops_it(self, tmp_path):
        def stop(view):
            if view.samples and view.phase == "training":  # asked twice, it would stop at once
                signal.raise_signal(signal.SIGINT)

        spec = spec_of(LocalSgd(), worker_steps=10_000_000)
        with pytest.raises(Interrupted) as stopped:
            paceline.run(spec, out=tmp_path, watch=stop)
        result = stopped.value.result
        assert result.status == "interrupted"
        assert len({each.worker_steps for each in result.workers}) == 1
        assert parameters_of(result)

    def test_one_that_fails_there_is_named_and_nobody_waits_for_it(self, tmp_path):
        with pytest.raises(SeatFailed, match="worker1 failed: RuntimeError: cannot settle"):
            paceline.run(spec_of(Uneven(fails=True), eval_every=5), out=tmp_path)
