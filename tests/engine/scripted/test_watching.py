"""What is seen of a script without a line in it; all in this process."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from paceline.engine.scripted.watching import Watch, Watched


class Heard(Watched):
    def __init__(self):
        self.said = []

    def starts(self):
        self.said.append("starts")

    def stepped(self, optimizer):
        self.said.append(type(optimizer).__name__)

    def leaves_group(self):
        self.said.append("leaves")


@pytest.fixture
def watch():
    made = Watch(Heard(), num_workers=2)
    made.begin()
    yield made
    made.end()


def loader_of(num_rows, batch):
    return DataLoader(TensorDataset(torch.ones(num_rows, 1)), batch_size=batch)


def test_a_step_starts_the_clock_once_and_is_told(watch):
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(2):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    assert watch._watched.said == ["starts", "SGD", "SGD"]


def test_only_loaders_whose_batches_are_back_propagated_count(watch):
    model, other = nn.Linear(1, 1), loader_of(5, 5)
    for _rows in loader_of(10, 4):
        for (tested,) in other:
            model(tested)
    assert watch.num_samples == 0
    for (rows,) in loader_of(10, 4):
        model(rows).sum().backward()
        with torch.no_grad():
            for (tested,) in other:
                model(tested)
    assert watch.num_samples == 10
    assert watch.batch == 4


def test_batches_that_are_loaded_ahead_count_once(watch):
    model, ahead = nn.Linear(1, 1), iter(loader_of(12, 4))
    (rows,) = next(ahead)
    for (following,) in ahead:
        model(rows).sum().backward()
        rows = following
    model(rows).sum().backward()
    assert watch.num_samples == 12


def test_what_follows_the_last_gradient_is_exchange(watch):
    """As DDP does it: with a function that the engine calls when all gradients are there."""
    watch.start()
    order = []

    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(context, values):
            return values.clone()

        @staticmethod
        def backward(context, gradient):
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: order.append(watch._depth)
            )
            order.append(watch._depth)
            return gradient

    Waits.apply(torch.ones(1, requires_grad=True)).sum().backward()
    assert order == [0, 1], "computing, then waiting"
    assert watch.exchange_ns > 0


def test_a_collective_within_another_is_timed_once_and_torch_is_restored(tmp_path):
    originals = dist.barrier, torch.autograd.backward, dist.Work.wait
    watch = Watch(Heard(), num_workers=1)
    watch.begin()
    assert dist.barrier is not originals[0]
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    first = watch.exchange_ns
    watch._depth = 1
    dist.all_reduce(torch.ones(1))
    assert watch.exchange_ns == first > 0
    dist.destroy_process_group()
    watch.end()
    assert watch._watched.said == ["leaves"]
    assert (dist.barrier, torch.autograd.backward, dist.Work.wait) == originals
