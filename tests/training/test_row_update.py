"""Updates of a few rows: the same as of a whole table of which only these rows have gradients."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from paceline.testing.states import StateConformance
from paceline.training.optim import Adagrad, Adam, AdamW, Optimizer, Sgd, Update
from paceline.training.row_update import RowUpdate, new_table, values_per_row
from paceline.training.schedules import Step
from paceline.training.state import StateReader

OPTIMIZERS = [
    Sgd(lr=0.1),
    Sgd(lr=0.1, weight_decay=0.01),
    Sgd(lr=0.1, momentum=0.9),
    Sgd(lr=0.1, momentum=0.9, nesterov=True),
    Adam(),
    AdamW(),
    Adagrad(),
    Adagrad(weight_decay=0.01, schedule=Step(every_steps=2, warmup_steps=3)),
]
NUM_ROWS = 50

every_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
every_width = pytest.mark.parametrize("width", [1, 2, 3, 8])
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def made(optimizer: Optimizer, start: Tensor) -> RowUpdate:
    num_rows, width = start.shape
    table = new_table(num_rows, values_per_row(optimizer, width), start.dtype)
    update = RowUpdate(optimizer, table, width)
    update.parameters.copy_(start)
    return update


def drawn(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@every_optimizer
@every_width
@every_dtype
def test_rows_change_as_a_dense_table_of_them_alone_would(
    optimizer: Optimizer, width: int, dtype: torch.dtype
):
    start = drawn(NUM_ROWS, width, seed=0, dtype=dtype)
    rows = torch.tensor([31, 7, 2])
    sparse, dense = made(optimizer, start), Update(optimizer, start[rows].clone())
    for number in range(1, 8):
        gradient = drawn(3, width, seed=number, dtype=dtype)
        sparse.apply(rows, gradient.clone(), number)
        dense.apply(gradient, number)
    exact = 1e-6 if dtype is torch.float32 else 1e-14
    torch.testing.assert_close(sparse.rows(rows), dense.parameters, rtol=exact, atol=exact)
    others = [row for row in range(NUM_ROWS) if row not in rows.tolist()]
    assert torch.equal(sparse.parameters[others], start[others])
    for index, values in enumerate(dense.states):
        kept = sparse.state()[f"slot{index}"]
        assert isinstance(kept, Tensor)
        torch.testing.assert_close(kept[rows], values, rtol=exact, atol=exact)
        assert not kept[others].any()


@every_width
def test_plain_sgd_is_dense_sgd_with_zero_elsewhere(width: int):
    start = drawn(NUM_ROWS, width, seed=0, dtype=torch.float64)
    sparse, dense = made(Sgd(lr=0.1), start), Update(Sgd(lr=0.1), start.clone())
    for number in range(1, 8):
        rows = torch.randperm(NUM_ROWS)[:number]
        gradient = drawn(number, width, seed=number, dtype=torch.float64)
        whole = torch.zeros(NUM_ROWS, width, dtype=torch.float64).index_copy_(0, rows, gradient)
        sparse.apply(rows, gradient, number)
        dense.apply(whole, number)
    torch.testing.assert_close(sparse.parameters, dense.parameters, rtol=0, atol=1e-14)


@every_optimizer
@every_width
def test_the_order_of_rows_changes_nothing(optimizer: Optimizer, width: int):
    start = drawn(NUM_ROWS, width, seed=0, dtype=torch.float32)
    one, other = made(optimizer, start), made(optimizer, start)
    rows = torch.arange(0, NUM_ROWS, 2)
    for number, _ in enumerate(range(5), 1):
        gradient = drawn(len(rows), width, seed=number, dtype=torch.float32)
        order = torch.randperm(len(rows))
        one.apply(rows, gradient.clone(), number)
        other.apply(rows[order], gradient[order], number)
    assert torch.equal(one.parameters, other.parameters)


@every_optimizer
def test_no_row_at_all_changes_nothing(optimizer: Optimizer):
    start = drawn(NUM_ROWS, 1, seed=0, dtype=torch.float32)
    update = made(optimizer, start)
    update.apply(torch.empty(0, dtype=torch.int64), torch.empty(0, 1), 1)
    assert torch.equal(update.parameters, start)
    assert update.rows(torch.empty(0, dtype=torch.int64)).shape == (0, 1)


@every_optimizer
def test_the_learning_rate_follows_the_schedule(optimizer: Optimizer):
    scheduled = replace(optimizer, schedule=Step(every_steps=4, warmup_steps=3))
    start = drawn(NUM_ROWS, 1, seed=0, dtype=torch.float64)
    sparse, dense = made(scheduled, start), Update(scheduled, start.clone())
    for number in range(1, 12):
        gradient = drawn(NUM_ROWS, 1, seed=number, dtype=torch.float64)
        sparse.apply(torch.arange(NUM_ROWS), gradient.clone(), number)
        dense.apply(gradient, number)
    torch.testing.assert_close(sparse.parameters, dense.parameters, rtol=0, atol=1e-14)


def test_a_row_and_its_states_lie_in_one_cache_line():
    for optimizer, dtype in itertools.product(OPTIMIZERS, (torch.float32, torch.float64)):
        row_bytes = values_per_row(optimizer, 1) * dtype.itemsize
        assert 64 % row_bytes == 0


class _Trained:
    """A table, its optimizer, and how many updates there were."""

    def __init__(self, optimizer: Optimizer, width: int) -> None:
        self.update = made(optimizer, torch.ones(6, width))
        self.number = 0

    def state(self):
        parameters = self.update.parameters.contiguous()
        return {"number": self.number, "table": parameters, "update": self.update.state()}

    def load(self, state):
        with StateReader(state) as fields:
            self.number = fields.whole("number")
            fields.fill("table", self.update.parameters)
            fields.part("update", self.update)


@every_optimizer
class TestStates(StateConformance):
    @pytest.fixture(autouse=True, params=[1, 2])
    def _chosen(self, optimizer, request):
        self.optimizer, self.width = optimizer, request.param

    def make(self):
        return _Trained(self.optimizer, self.width)

    def advance(self, thing):
        thing.number += 1
        rows = torch.tensor([thing.number % 3, 3 + thing.number % 2])
        thing.update.apply(rows, thing.update.rows(rows).cos(), thing.number)
