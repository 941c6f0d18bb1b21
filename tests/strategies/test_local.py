"""`single` is a plain torch loop, dense or sparse; `solo` the same without counting."""

from collections.abc import Iterator
from itertools import islice

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.compute.real import Real
from paceline.strategies.base import Member, Place, Strategy
from paceline.strategies.local import Single, Solo
from paceline.training.optim import Adam, Optimizer, Sgd
from paceline.training.replica import Replica
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist
from paceline.workloads.order import Order
from paceline.workloads.synthetic import Synthetic
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_of

NUM_STEPS = 20
ORDER = Order(num_rows=1000, num_workers=1, batch=32, seed=0)
SPARSE = Synthetic(rows=1000, features=100, nonzeros=5)


@pytest.fixture
def channel() -> Iterator[MemoryChannel]:
    driver, seat = line_of_a_seat()
    yield MemoryChannel("worker0", boxes_for(["worker0"]), seat)
    driver.close()
    seat.close()


def join(
    strategy: Strategy,
    workload: Workload,
    optimizer: Optimizer,
    channel: MemoryChannel,
    dtype: torch.dtype = torch.float32,
) -> tuple[Member, Replica]:
    torch.manual_seed(0)
    replica = Replica(workload.model(), dtype)
    place = Place(
        name="worker0",
        roster=roster_of("worker0"),
        replica=replica,
        optimizer=optimizer,
        most_steps=None,
        open_channel=lambda: channel,
    )
    return strategy.join(place), replica


def train(member: Member, replica: Replica, workload: Workload, num_steps: int) -> list[float]:
    """The worker's loop, bare."""
    compute = Real(workload.loss, replica, None)
    data = workload.data("train", replica.parameters.dtype)
    losses = []
    for rows in islice(ORDER.batches(0), num_steps):
        batch = data.take(rows)
        touched = data.touched(batch)
        if touched is not None:
            member.pull(touched)
        losses.append(compute.gradients(batch))
        assert member.exchange(last=False) is False
    return losses


def torch_loop(
    workload: Workload, optimizer: torch.optim.Optimizer, model: nn.Module, dtype: torch.dtype
) -> list[float]:
    data = workload.data("train", dtype)
    losses = []
    for rows in islice(ORDER.batches(0), NUM_STEPS):
        optimizer.zero_grad()
        loss = workload.loss(model, data.take(rows))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "workload",
    [LogisticMnist(subset="tenth"), LenetMnist(subset="tenth"), Synthetic(bytes=40_000, rows=1000)],
    ids=lambda each: each.name,
)
def test_single_is_a_plain_torch_loop(workload: Workload, channel: MemoryChannel):
    ours = Sgd(lr=0.05, momentum=0.9, weight_decay=1e-4)
    member, replica = join(Single(), workload, ours, channel, torch.float64)
    losses = train(member, replica, workload, NUM_STEPS)

    torch.manual_seed(0)
    model = workload.model().double()
    peer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    assert losses == pytest.approx(torch_loop(workload, peer, model, torch.float64), rel=1e-12)
    expected = torch.cat([each.detach().flatten() for each in model.parameters()])
    torch.testing.assert_close(replica.parameters, expected, rtol=0, atol=1e-12)


def test_single_counts_its_updates(channel: MemoryChannel):
    workload = LogisticMnist(subset="tenth")
    member, replica = join(Single(), workload, Adam(), channel)
    assert member.global_steps == 0
    train(member, replica, workload, 3)
    assert member.global_steps == 3


def test_solo_trains_the_same_and_counts_no_global_steps(channel: MemoryChannel):
    workload = LogisticMnist(subset="tenth")
    solo, its = join(Solo(), workload, Adam(), channel)
    single, reference = join(Single(), workload, Adam(), channel)
    losses = train(solo, its, workload, 5)
    assert losses == train(single, reference, workload, 5)
    assert torch.equal(its.parameters, reference.parameters)
    assert solo.global_steps is None
    assert not Solo().counts_steps


@pytest.mark.parametrize("strategy", [Single(), Solo()], ids=lambda each: each.name)
@pytest.mark.parametrize("last", [True, False])
def test_a_worker_alone_stops_when_it_wishes(
    strategy: Strategy, last: bool, channel: MemoryChannel
):
    member, _ = join(strategy, LogisticMnist(subset="tenth"), Sgd(), channel)
    assert member.exchange(last=last) is last


def dense_logistic(num_steps: int, lr: float) -> tuple[list[float], Tensor, Tensor]:
    """The sparse workload's model as torch would have it: one weight a feature, all of them."""
    data = SPARSE.data("train", torch.float64)
    weights = torch.zeros(SPARSE.features, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights, bias], lr=lr)
    losses = []
    for rows in islice(ORDER.batches(0), num_steps):
        inputs = functional.one_hot(data.features[rows], SPARSE.features).sum(1).double()
        logits = inputs @ weights + bias
        loss = functional.binary_cross_entropy_with_logits(logits, data.labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights.detach(), bias.detach()


def test_sparse_rows_train_as_the_dense_model_does(channel: MemoryChannel):
    num_steps = 3 * ORDER.steps_per_epoch
    member, replica = join(Single(), SPARSE, Sgd(lr=0.5), channel, torch.float64)
    losses = train(member, replica, SPARSE, num_steps)
    expected, weights, bias = dense_logistic(num_steps, lr=0.5)
    assert losses == pytest.approx(expected, rel=1e-10)
    torch.testing.assert_close(member.table_values().squeeze(1), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(replica.parameters, bias, rtol=0, atol=1e-12)
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])


def test_rows_no_batch_named_stay_as_they_were(channel: MemoryChannel):
    workload = Synthetic(rows=1000, features=100_000, nonzeros=3)
    member, replica = join(Single(), workload, Adam(lr=0.1), channel)
    train(member, replica, workload, 4)
    named = torch.unique(
        torch.cat(
            [
                workload.data("train", torch.float32).features[rows].flatten()
                for rows in islice(ORDER.batches(0), 4)
            ]
        )
    )
    values = member.table_values().squeeze(1)
    assert (values[named] != 0).all()
    assert values.count_nonzero() == len(named)


def test_a_dense_model_has_no_table(channel: MemoryChannel):
    member, _ = join(Single(), LogisticMnist(subset="tenth"), Sgd(), channel)
    assert member.table_values() is None


def test_looking_at_other_rows_between_steps_does_not_disturb_training(channel: MemoryChannel):
    """As an evaluation does: pull the test rows, without gradients, and train on."""
    member, replica = join(Single(), SPARSE, Sgd(lr=0.5), channel, torch.float64)
    train(member, replica, SPARSE, 5)
    before = member.table_values().clone()
    test = SPARSE.data("test", torch.float64)
    with torch.no_grad():
        batch = test.take(torch.arange(10))
        member.pull(test.touched(batch))
        SPARSE.metrics(replica.model, batch)
    assert torch.equal(member.table_values(), before)
    train(member, replica, SPARSE, 1)
    assert not torch.equal(member.table_values(), before)


def test_single_refuses_several_workers_and_solo_does_not():
    (problem,) = Single().group_problems(2)
    assert (problem.field, problem.value) == ("num_workers", 2)
    assert list(Single().group_problems(1)) == list(Solo().group_problems(5)) == []


def test_what_was_computed_is_said_in_words():
    assert Single().meaning(1) == "one worker"
    assert Solo().meaning(3) == "3 independent workers"
