"""Rows of workers that are gone: dealt to others, none left out and none taken twice."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.training.shares import Holding, Share, Shares, dealt

STEPS = 7
EPOCHS = 3
END = STEPS * EPOCHS


def test_an_epoch_is_finished_in_all_shares_before_the_next_begins():
    shares = Shares([Share(rank=0, start=5), Share(rank=1, start=3, every=2)], STEPS)
    taken = []
    for _ in range(8):
        before = [*shares.left]
        share = before[shares.take()]
        taken.append((share.rank, share.start))
    assert taken == [(0, 5), (0, 6), (1, 3), (1, 5), (0, 7), (0, 8), (0, 9), (0, 10)]


@pytest.mark.parametrize("num_shares", range(1, 6))
@pytest.mark.parametrize("num_heirs", range(1, 6))
def test_what_is_dealt_is_all_there_was_once(num_shares: int, num_heirs: int):
    shares = [Share(rank=rank, start=rank, every=1 + rank % 2) for rank in range(num_shares)]
    heirs = dealt(shares, num_heirs)
    assert len(heirs) == num_heirs
    assert all(heirs)
    found = Counter(batch for each in heirs for share in each for batch in batches(share))
    assert found == Counter(batch for share in shares for batch in batches(share))


def batches(share: Share) -> list[tuple[int, int]]:
    return [(share.rank, index) for index in range(share.start, END, share.every)]


class Worker:
    """Takes batches as a worker's feed does, and tells what others know of it."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.shares = Shares([Share(rank=rank, start=0)], STEPS)
        self.holding = Holding(rank, STEPS)
        self.taken: list[tuple[int, int]] = []

    @property
    def is_done(self) -> bool:
        return not any(each.num_before(END) for each in self.shares.left)

    def take(self) -> None:
        left = self.shares.left.copy()
        share = left[self.shares.take()]
        self.taken.append((share.rank, share.start))

    def take_over(self, more: list[Share]) -> None:
        self.holding.add(len(self.taken), more)
        self.shares = self.shares.with_more(more)


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_whoever_dies_and_whenever_every_batch_is_taken_once(
    num_workers: int, draws: random.Random
):
    workers = [Worker(rank) for rank in range(num_workers)]
    counted: Counter[tuple[int, int]] = Counter()
    while not all(each.is_done for each in workers):
        worker = draws.choice([each for each in workers if not each.is_done])
        training = [each for each in workers if not each.is_done and each is not worker]
        if training and draws.random() < 0.05:
            # A batch that was taken ahead of its step does not count.
            num_taken = max(0, len(worker.taken) - draws.randint(0, 1))
            counted.update(worker.taken[:num_taken])
            workers.remove(worker)
            left = [each for each in worker.holding.left(num_taken) if each.num_before(END)]
            for heir, part in zip(training, dealt(left, len(training)), strict=True):
                if part:
                    heir.take_over(part)
        else:
            worker.take()
    for each in workers:
        counted.update(each.taken)
    wanted = {(rank, index): 1 for rank in range(num_workers) for index in range(END)}
    assert {batch: number for batch, number in counted.items() if batch[1] < END} == wanted


def test_a_holding_tells_what_is_left_before_it_took_over_something():
    holding = Holding(0, STEPS)
    holding.add(3, [Share(rank=1, start=2)])
    assert holding.left(2) == [Share(rank=0, start=2), Share(rank=1, start=2)]
    assert holding.left(8) == [Share(rank=0, start=7), Share(rank=1, start=3)]
