"""Loaders in a run: N workers at batch B see what one sees at N times B."""

import itertools

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.loaders import Dealer, dealt, rows_in
from paceline.errors import LoopError

ROWS = TensorDataset(torch.arange(50))


class Turns:
    """A run without end, or with one after so many batches."""

    def __init__(self, most=10**9):
        self.left = most
        self.notes = []
        self.pauses = 0
        self.is_evaluating = False
        self.share = None

    @property
    def is_over(self):
        return self.left <= 0

    def load(self, batches):
        batch = next(batches)
        self.left -= 1
        return batch

    def pause(self):
        self.pauses += 1

    def say(self, note):
        self.notes.append(note)


def workers(make, num_workers, turns=None):
    """The loaders of all workers, each with random numbers of its own, as processes have them."""
    torch.manual_seed(11)
    given, state = make(), torch.get_rng_state()
    return [
        dealt(given, Dealer(rank, num_workers, SharedDraws(state.clone())), turns or Turns())
        for rank in range(num_workers)
    ]


def epochs(loader, count=2):
    torch.manual_seed(hash(id(loader)) % 1000)  # what else draws numbers must not matter
    return [[each.tolist() for (each,) in loader] for _ in range(count)]


def together(loaders):
    """Join the batches of all workers step by step."""
    each = [epochs(loader) for loader in loaders]
    return [
        [[*itertools.chain(*parts)] for parts in zip(*steps, strict=True)]
        for steps in zip(*each, strict=True)
    ]


def alone(make):
    torch.manual_seed(11)
    loader = dealt(make(), Dealer(0, 1), Turns())
    return [[each.tolist() for (each,) in loader] for _ in range(2)]


def weighted(batch):
    return DataLoader(ROWS, batch, sampler=WeightedRandomSampler(torch.rand(50), 50))


KINDS = {
    "in order": lambda batch: DataLoader(ROWS, batch),
    "shuffled": lambda batch: DataLoader(ROWS, batch, shuffle=True),
    "weighted": weighted,
    "a generator of its own": lambda batch: DataLoader(
        ROWS, batch, shuffle=True, generator=torch.Generator().manual_seed(4)
    ),
}


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "a generator of its own"])
@pytest.mark.parametrize("num_workers", [2, 3])
def test_workers_see_what_one_sees_at_a_larger_batch(kind, num_workers):
    def make(batch):
        torch.manual_seed(11)
        return KINDS[kind](batch)

    assert together(workers(lambda: make(4), num_workers)) == alone(lambda: make(4 * num_workers))


def test_a_generator_of_the_scripts_own_is_used():
    first, second = (
        dealt(
            KINDS["a generator of its own"](4),
            Dealer(rank, 2, SharedDraws(torch.get_rng_state())),
            Turns(),
        )
        for rank in range(2)
    )
    joined = [
        [one + two for one, two in zip(*e, strict=True)]
        for e in [(epochs(first)[0], epochs(second)[0])]
    ]
    (bare,) = [[each.tolist() for (each,) in KINDS["a generator of its own"](8)][:6]]
    assert joined[0] == bare


def test_the_short_last_batch_is_dropped_and_that_is_said():
    turns = Turns()
    loader = dealt(DataLoader(ROWS, 8), Dealer(0, 2), turns)
    assert len(loader) == 3
    turns.is_evaluating = True
    next(iter(loader))
    assert turns.notes == []  # whatever evaluates has all rows
    turns.is_evaluating = False
    next(iter(loader))
    assert turns.notes == ["the last 2 rows of an epoch, fewer than a batch of all, are left out"]


def test_what_a_loader_was_made_with_is_kept():
    given = DataLoader(ROWS, 4, collate_fn=len, num_workers=2, prefetch_factor=3, timeout=9)
    loader = dealt(given, Dealer(1, 2), Turns())
    assert isinstance(loader, DataLoader)
    kept = ("dataset", "collate_fn", "num_workers", "prefetch_factor", "timeout", "batch_size")
    assert all(getattr(loader, name) == getattr(given, name) for name in kept)


def test_batches_of_a_sampler_of_the_scripts_own_are_dealt_out_whole():
    class Long(BatchSampler):
        pass

    def make():
        return DataLoader(ROWS, batch_sampler=Long(SequentialSampler(ROWS), 5, drop_last=True))

    first, second = workers(make, 2)
    assert [each[0] for each in epochs(first, 1)[0]] == [0, 10, 20, 30, 40]
    assert [each[0] for each in epochs(second, 1)[0]] == [5, 15, 25, 35, 45]
    assert len(first) == 5


class Numbers(IterableDataset):
    def __iter__(self):
        return iter((torch.tensor(each),) for each in range(50))


def test_an_iterable_dataset_is_dealt_out_and_that_is_said():
    turns = Turns()
    loaders = workers(lambda: DataLoader(Numbers(), 4), 2, turns)
    assert together(loaders)[0] == alone(lambda: DataLoader(Numbers(), 8))[0]
    assert turns.notes[0].startswith("each worker reads all of an iterable dataset")


def test_the_scripts_own_sharding_is_left_alone():
    turns = Turns()
    sampler = DistributedSampler(ROWS, num_replicas=2, rank=1, shuffle=False)
    loader = dealt(DataLoader(ROWS, 5, sampler=sampler), Dealer(1, 2), turns)
    assert epochs(loader, 1)[0][0] == [1, 3, 5, 7, 9]
    assert loader.sampler is sampler
    assert "own sharding" in turns.notes[0]


def test_any_iterable_of_batches_is_dealt_out():
    turns = Turns()
    loader = dealt([torch.full((3,), each) for each in range(5)], Dealer(1, 2), turns)
    assert [each.tolist() for each in loader] == [[1, 1, 1], [3, 3, 3]]
    assert len(loader) == 2
    assert turns.notes


def test_the_end_of_a_run_ends_the_loader_and_all_later_epochs():
    turns = Turns(most=3)
    loader = dealt(DataLoader(ROWS, 4), Dealer(0, 2), turns)
    assert [len(each) for each in epochs(loader, 3)] == [3, 0, 0]
    assert turns.pauses == 1


def test_too_few_rows_for_all_workers_are_refused():
    with pytest.raises(LoopError, match=r"each of 3 workers \(50 rows, batches of 20\)"):
        dealt(DataLoader(ROWS, 20), Dealer(0, 3), Turns())


class Augmented(Dataset):
    """Draws for each row as many random numbers as another random number says."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        torch.rand(int(torch.randint(20, ())))
        return (torch.tensor(index),)


class Drawn(torch.utils.data.Sampler):
    """A sampler of the script's own that draws index by index, with replacement."""

    def __iter__(self):
        return (int(torch.randint(48, ())) for _ in range(48))

    def __len__(self):
        return 48


class Batches(BatchSampler):
    """Of a class that is not known here, so that it is dealt out batch by batch."""


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "batch_size": 4},
        {"sampler": Drawn(), "batch_size": 4},
        {"batch_sampler": Batches(Drawn(), 4, drop_last=True)},
    ],
)
@pytest.mark.parametrize("num_processes", [0, 1])
def test_what_rows_draw_changes_no_order(options, num_processes):
    def make(**more):
        return DataLoader(Augmented(), num_workers=num_processes, **(options | more))

    together_ = workers(make, 2)
    plain = [DataLoader(list(range(48)), **options) for _ in range(2)]
    torch.manual_seed(11)
    state = torch.get_rng_state()
    expected = [
        dealt(each, Dealer(rank, 2, SharedDraws(state.clone())), Turns())
        for rank, each in enumerate(plain)
    ]
    for one, other in zip(together_, expected, strict=True):
        rows = [[each.tolist() for each in other] for _ in range(3)]
        assert epochs(one, 3) == rows


def test_while_evaluating_a_loader_gives_all_rows_and_none_is_counted():
    turns = Turns(most=0)
    turns.is_evaluating = True
    for given in (DataLoader(ROWS, 8), DataLoader(Numbers(), 8), [*DataLoader(ROWS, 8)]):
        loader = dealt(given, Dealer(1, 2), turns)
        assert [each for (batch,) in loader for each in batch.tolist()] == [*range(50)]
        if hasattr(given, "__len__") and not isinstance(getattr(given, "dataset", None), Numbers):
            assert len(loader) == 7
    assert (turns.left, turns.pauses) == (0, 0)


class Slow(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return (torch.tensor(index),)


def test_a_loader_may_have_workers_of_its_own():
    def make(batch):
        torch.manual_seed(11)
        return DataLoader(Slow(), batch, shuffle=True, num_workers=1)

    loaders = workers(lambda: make(2), 2)
    assert together(loaders) == alone(lambda: make(4))


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        (torch.zeros(7, 2), 7),
        ({"x": torch.zeros(5)}, 5),
        ([torch.zeros(3), 1], 3),
        ("x", 1),
        (3, 1),
    ],
)
def test_rows_of_a_batch(batch, rows):
    assert rows_in(batch) == rows
