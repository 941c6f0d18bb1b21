"""The order of rows: every strategy sees the same, however many workers share it."""

import dataclasses
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import StateError
from paceline.workloads.order import Order


def taken(order: Order, rank: int, num_batches: int) -> list[list[int]]:
    return [rows.tolist() for rows in islice(order.batches(rank), num_batches)]


@st.composite
def orders(draw: st.DrawFn) -> Order:
    num_workers, batch = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    stride = num_workers * batch
    num_rows = draw(st.integers(stride, stride * 6))
    seed = draw(st.integers(0, 2**31 - 1))
    return Order(num_rows=num_rows, num_workers=num_workers, batch=batch, seed=seed)


@given(orders())
def test_every_row_is_taken_at_most_once_an_epoch_and_few_are_left(order: Order):
    rows = [
        row
        for rank in range(order.num_workers)
        for batch in taken(order, rank, order.steps_per_epoch)
        for row in batch
    ]
    assert len(rows) == len(set(rows))
    assert set(rows) <= set(range(order.num_rows))
    assert order.num_rows - len(rows) < order.num_workers * order.batch


@given(orders())
def test_workers_together_take_what_one_takes_at_their_whole_batch(order: Order):
    one = Order(
        num_rows=order.num_rows,
        num_workers=1,
        batch=order.num_workers * order.batch,
        seed=order.seed,
    )
    num_batches = 2 * order.steps_per_epoch + 1  # into the third epoch
    shares = [taken(order, rank, num_batches) for rank in range(order.num_workers)]
    for whole, parts in zip(taken(one, 0, num_batches), zip(*shares, strict=True), strict=True):
        assert whole == [row for part in parts for row in part]


@given(orders())
def test_one_seed_is_one_order(order: Order):
    num_batches = order.steps_per_epoch + 1
    assert taken(order, 0, num_batches) == taken(order, 0, num_batches)
    assert all(len(batch) == order.batch for batch in taken(order, 0, num_batches))


@pytest.mark.parametrize("seed", [0, 1, 41, 2**31 - 1])
def test_no_epoch_is_like_another_of_this_seed_or_of_its_neighbours(seed: int):
    seeds = [each for each in (seed - 1, seed, seed + 1) if each >= 0]
    orders_by_seed = [Order(num_rows=200, num_workers=1, batch=1, seed=each) for each in seeds]
    permutations = {
        tuple(order.permutation(epoch).tolist()) for order in orders_by_seed for epoch in range(40)
    }
    assert len(permutations) == 40 * len(seeds)


def test_the_order_has_nothing_to_do_with_torchs_own_random_numbers():
    order = Order(num_rows=50, num_workers=1, batch=10, seed=3)
    torch.manual_seed(1)
    first = taken(order, 0, 9)
    before = torch.random.get_rng_state()
    torch.manual_seed(2)
    assert taken(order, 0, 9) == first
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), before)


@st.composite
def windowed(draw: st.DrawFn) -> Order:
    """Orders of rows in files: shuffled by runs, and within a window."""
    order = draw(orders())
    length = draw(st.integers(1, order.num_rows))
    runs = tuple(range(0, order.num_rows, length))
    return dataclasses.replace(order, window=draw(st.integers(1, order.num_rows)), runs=runs)


@given(st.one_of(orders(), windowed()), st.integers(0, 30))
def test_an_order_goes_on_where_it_was_left_in_the_middle_of_an_epoch_too(order: Order, start: int):
    later = order.continued(order.state(start))
    for rank in range(order.num_workers):
        whole = list(islice(order.draws(rank), start + 8))
        rest = list(islice(later.draws(rank), 8))
        assert [draw.rows.tolist() for draw in rest] == [d.rows.tolist() for d in whole[start:]]
        assert [draw.position for draw in rest] == [draw.position for draw in whole[start:]]


def test_the_place_in_another_order_does_not_fit():
    order = Order(num_rows=50, num_workers=1, batch=10, seed=3)
    state = order.state(7)
    for name, value in (("num_rows", 51), ("num_workers", 2), ("batch", 5), ("seed", 4)):
        other = dataclasses.replace(order, **{name: value})
        with pytest.raises(StateError, match=f"{name} = {state[name]}: expected {value}"):
            other.continued(state)
