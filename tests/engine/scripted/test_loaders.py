"""Loaders in a run: N workers at batch B see what one sees at N times B."""

import itertools
import random
from collections import UserDict

import numpy as np
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

from paceline.engine.scripted.dealing import Dealer
from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.loaders import dealt, rows_in
from paceline.engine.scripted.sharing import EvaluatedPart
from paceline.errors import LoopError

ROWS = TensorDataset(torch.arange(50))


class Turns:
    """A run without end, or with one after so many batches."""

    def __init__(self, most=10**9):
        self.left = most
        self.notes = []
        self.pauses = 0
        self.was_cut = False
        self.is_evaluating = False
        self.share = None

    @property
    def is_over(self):
        return self.left <= 0

    def load(self, batches):
        batch = next(batches)
        self.left -= 1
        return batch

    def cut_short(self):
        self.was_cut = True

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


class Sized(Numbers):
    kind = "the script's own"

    def __len__(self):
        return 50


def test_a_sized_iterable_dataset_has_a_length_and_is_the_scripts_own():
    turns, given = Turns(), DataLoader(Sized(), 4)
    loader = dealt(given, Dealer(0, 2), turns)
    assert len(loader) == len([*loader]) == 6
    assert loader.dataset is given.dataset
    turns.is_evaluating = True
    assert len(loader) == len([*loader]) == 13
    turns.share = EvaluatedPart(0, 2, None)
    with pytest.raises(LoopError, match="divide by the number of rows that were read"):
        len(loader.dataset)


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


class Doubled(DataLoader):
    """Gives batches in a way of its own."""

    def __iter__(self):
        return ((2 * each,) for (each,) in super().__iter__())


def test_a_loader_that_gives_batches_in_its_own_way_goes_on_doing_so():
    turns = Turns()
    loaders = [dealt(Doubled(ROWS, 5), Dealer(rank, 2), turns) for rank in range(2)]
    assert [epochs(each, 1)[0][0] for each in loaders] == [[0, 2, 4, 6, 8], [10, 12, 14, 16, 18]]
    assert turns.notes[0].startswith(
        "Doubled gives batches in a way of its own, so they are dealt out"
    )
    assert loaders[0].batch_size == 5


def test_its_own_sharding_is_left_alone_in_that_case_too():
    turns = Turns()
    sampler = DistributedSampler(ROWS, num_replicas=2, rank=1, shuffle=False)
    loader = dealt(Doubled(ROWS, 5, sampler=sampler), Dealer(1, 2), turns)
    assert epochs(loader, 1)[0][0] == [2, 6, 10, 14, 18]
    assert len(loader) == 5
    assert "own sharding" in turns.notes[0]


def test_the_end_of_a_run_ends_the_loader_and_all_later_epochs():
    turns = Turns(most=3)
    loader = dealt(DataLoader(ROWS, 4), Dealer(0, 2), turns)
    assert [len(each) for each in epochs(loader, 3)] == [3, 0, 0]
    assert (turns.pauses, turns.was_cut) == (1, True)


def test_an_epoch_that_ends_by_itself_is_not_cut_short():
    turns = Turns()
    epochs(dealt(DataLoader(ROWS, 4), Dealer(0, 2), turns))
    assert (turns.pauses, turns.was_cut) == (2, False)


@pytest.mark.parametrize(
    ("given", "contents"),
    [
        (DataLoader(ROWS, 20), r" \(50 rows, batches of 20\)"),
        (DataLoader(ROWS, batch_sampler=[[*range(50)]]), r" \(50 rows, 1 batches\)"),
        (DataLoader([1, 2], batch_size=None), r" \(2 rows, 2 batches\)"),
        ([], r" \(0 batches\)"),
        (itertools.repeat(1, 2), ""),
    ],
)
def test_an_epoch_without_a_batch_for_all_is_an_error_when_it_is_read(given, contents):
    """Not before: what is only evaluated may be as short as it likes."""
    loader = dealt(given, Dealer(0, 3), Turns())
    with pytest.raises(LoopError, match=f"a loader has no batch for each of 3 workers{contents}: "):
        next(iter(loader))


class Nothing(IterableDataset):
    def __iter__(self):
        return iter(())


def test_an_iterable_without_rows_is_an_error_too_and_never_spins():
    loader = dealt(DataLoader(Nothing(), 4), Dealer(0, 1), Turns())
    with pytest.raises(LoopError, match=r"each of 1 workers \(batches of 4\)"):
        epochs(loader)


def test_what_can_be_read_once_only_may_be_asked_again():
    loader = dealt(iter([1, 2, 3]), Dealer(0, 1), Turns())
    assert [[*loader], [*loader]] == [[1, 2, 3], []]


def test_few_rows_are_evaluated_all_and_refused_where_they_are_trained_on():
    turns = Turns()
    loader = dealt(DataLoader(ROWS, 100), Dealer(1, 2), turns)
    few = "no batch for each of 2 workers (50 rows, batches of 100)"
    assert turns.notes == [f"a loader has {few}: it can be evaluated, but not be trained on"]
    turns.is_evaluating = True
    assert [len(batch) for (batch,) in loader] == [50]
    turns.is_evaluating = False
    with pytest.raises(LoopError, match="no batch for each of 2 workers"):
        next(iter(loader))


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


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_sampler": [[0, 1], [2, 3]]}])
def test_a_sampler_has_the_length_of_what_is_read(options):
    turns = Turns()
    loader = dealt(DataLoader(ROWS, **options), Dealer(0, 2), turns)
    sampler = loader.batch_sampler if "batch_sampler" in options else loader.sampler
    own = len(options.get("batch_sampler", ROWS))
    assert len(sampler) < own
    turns.is_evaluating = True
    assert len(sampler) == own
    turns.share = EvaluatedPart(1, 2, None)
    assert len(sampler) == own // 2


class Noisy(Dataset):
    """Rows that are different each time they are read, by each of the usual generators."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        drawn = np.random.rand()  # noqa: NPY002 - what scripts use
        return torch.tensor([torch.rand(()).item(), random.random(), drawn])


def begun(number):
    torch.rand(number + 1)


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_processes_of_loaders_draw_other_numbers_in_each_worker(generator):
    def make():
        return DataLoader(Noisy(), 2, num_workers=1, generator=generator, worker_init_fn=begun)

    def rows(loader):
        if generator is not None:  # each worker has one, in the same state
            generator.manual_seed(4)
        return next(iter(loader))

    first, second, again = map(rows, [*workers(make, 2), workers(make, 2)[0]])
    assert not (first == second).any()
    assert torch.equal(first, again)


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
        (UserDict(x=torch.zeros(5)), 5),
        ([torch.zeros(3), 1], 3),
        ("x", 1),
        (3, 1),
    ],
)
def test_rows_of_a_batch(batch, rows):
    assert rows_in(batch) == rows
