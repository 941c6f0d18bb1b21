"""Any order of steps, words, deaths and restarts: no batch is left out, and none is taken twice.

The driver's part and the workers' feeds are the real ones; lines, servers and processes are played.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draws

from paceline.comm.roster import Seat, Sitting
from paceline.comm.words import Parted, Stepped, TakenOver, TakeOver, Word
from paceline.engine.feed import Feed
from paceline.engine.inheritance import Inheritance
from paceline.engine.progress import Newest
from paceline.training.shares import Share
from paceline.workloads.base import Batch, Data
from paceline.workloads.order import Order
from tests.comm.rows import ROW
from tests.engine.fakes import FakeClock

STEPS, EPOCHS = 4, 3
END = STEPS * EPOCHS


class Numbers(Data):
    """A batch is its rank and its number."""

    def __len__(self) -> int:
        return STEPS

    def take(self, rows: torch.Tensor) -> Batch:
        raise NotImplementedError

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        number = order.start
        while True:
            yield (torch.tensor([rank, number]),)
            number += order.every


class Working:
    """A worker's process: what it was told and has not heard, and what it said."""

    def __init__(self, world: "World", name: str, *, start: int, shares: list[Share]) -> None:
        self.world, self.name = world, name
        order = replace(world.order, start=start)
        self.feed = Feed(Numbers(), order, world.seats[name].index, looks_ahead=world.looks_ahead)
        self.feed.say_taken_over = self._say_taken_over
        self.left = END - start
        if shares:
            self.feed.begin_with(shares)
            self.left = sum(each.num_before(END) for each in shares)
        self.batches = self.feed.batches()
        self.told: deque[TakeOver] = deque()
        self.said: deque[Word] = deque()
        self.num_steps = self.num_pushes = 0
        self.ahead = False
        self.is_done = False

    def _say_taken_over(self, num_shares: int, num_taken: int) -> None:
        self.said.append(TakenOver(num_shares, num_taken))

    def hear(self) -> None:
        """As `WorkerSession.take_over`."""
        while self.told and not (self.feed.looks_ahead and self.left < 2):
            word = self.told.popleft()
            self.left += sum(each.num_before(END) for each in word.shares)
            self.feed.take_over(word.shares)

    def step(self, *, dies: bool) -> None:
        """Take a batch and push it; who dies may have pushed it, and may not have said so."""
        if self.left <= 1 and self.num_steps:
            self.hear()
        if self.left <= 0:
            self.is_done = True
            return
        (batch,), _, _ = next(self.batches)
        if dies and self.world.random.random() < 0.5:
            return
        self.world.applied[(int(batch[0]), int(batch[1]))] += 1
        self.num_pushes += 1
        self.num_steps += 1
        self.left -= 1
        if not dies and self.world.random.random() < 0.4:
            row = replace(ROW, worker_steps=self.num_steps, samples=self.num_steps)
            self.said.append(Stepped(row))


class World:
    """The driver's part, its lines, and who dies when."""

    def __init__(self, workers: int, order: int, most_deaths: int, *, looks_ahead: bool) -> None:
        self.random, self.looks_ahead = Random(order), looks_ahead
        self.order = Order(num_rows=STEPS * workers, num_workers=workers, batch=1, seed=0)
        self.seats = {f"worker{n}": Seat("worker", n, "node0") for n in range(workers)}
        self.applied: Counter[tuple[int, int]] = Counter()
        self.deaths_left = most_deaths
        self.newest = Newest(self.seats, batch=1, is_replayed=False)
        self.inheritance = Inheritance(
            self.order,
            self.seats,
            newest=self.newest,
            tell=self._tell,
            heirs=lambda: {n for n, each in self.working.items() if n not in self.trained},
            is_on=True,
            end=END,
            now=FakeClock(),
        )
        self.trained: set[str] = set()
        self.incarnations = dict.fromkeys(self.seats, 0)
        self.parting: deque[tuple[str, Parted]] = deque()
        self.returning: list[str] = []
        self.working = {name: Working(self, name, start=0, shares=[]) for name in self.seats}

    def _tell(self, name: str, word: Word) -> None:
        assert isinstance(word, TakeOver)
        self.working[name].told.append(word)

    def play(self) -> None:
        for _ in range(20_000):
            if not self.working.keys() - self.trained and not (self.parting or self.returning):
                return
            self.random.choice(self._moves())()
        raise AssertionError("they do not come to their end")

    def _moves(self) -> list:
        moves = [self._part] * bool(self.parting) + [self._return] * bool(self.returning)
        for name, each in self.working.items():
            if name not in self.trained:
                moves += [
                    lambda each=each: each.step(dies=False),
                    lambda name=name: self._take(name),
                ]
                moves += [each.hear]
                if self._may_die(name):
                    moves += [lambda name=name: self._kill(name)]
        return moves

    def _may_die(self, name: str) -> bool:
        """Where one is left with steps to make that nobody takes over any more, rows are lost."""
        others = [e for n, e in self.working.items() if n != name and not e.is_done and e.left > 2]
        return self.deaths_left > 0 and bool(others) and not self.working[name].is_done

    def _take(self, name: str) -> None:
        """The driver hears all that a worker said, and perhaps that it has trained."""
        each = self.working[name]
        while each.said:
            match each.said.popleft():
                case Stepped(row):
                    self.newest.take_row(name, row)
                case TakenOver() as word:
                    self.inheritance.taken_over(self.seats[name], word)
        if each.is_done:
            self.trained.add(name)
            self.inheritance.trained(name)

    def _kill(self, name: str) -> None:
        self.deaths_left -= 1
        each = self.working[name]
        each.step(dies=True)
        each.is_done = False
        self._take(name)  # its last words
        del self.working[name]
        comes_back = self.random.random() < 0.4
        if not comes_back:
            gone = Sitting(seat=self.seats[name], incarnation=self.incarnations[name])
            self.inheritance.lose(gone, ["server0", "server1"])
        for index in range(2):  # the other server may not have had all of the last push
            less = min(each.num_pushes, index * self.random.randint(0, 1))
            word = Parted(
                worker=name,
                incarnation=self.incarnations[name],
                num_pushes=each.num_pushes - less,
            )
            self.parting.append((f"server{index}", word))
        if comes_back:
            self.returning.append(name)

    def _part(self) -> None:
        self.inheritance.parted(*self.parting.popleft())
        self.inheritance.attend()

    def _return(self) -> None:
        while self.parting:  # servers say so long before a process is started
            self._part()
        name = self.returning.pop(0)
        start = self.newest.begins_at(name, self.working, in_step=False)
        shares = self.inheritance.shares_of(name, start)
        self.incarnations[name] += 1
        self.newest.joined(name, 0)
        self.newest.entered(name, start)
        self.working[name] = Working(self, name, start=start, shares=shares)


def play(workers: int, order: int, most_deaths: int, *, looks_ahead: bool) -> None:
    world = World(workers, order, most_deaths, looks_ahead=looks_ahead)
    world.play()
    wanted = {(rank, number) for rank in range(workers) for number in range(END)}
    found = {batch: times for batch, times in world.applied.items() if batch[1] < END}
    assert {batch for batch, times in found.items() if times > 1} == set()
    missing = len(wanted - found.keys())
    assert missing <= world.inheritance.rows_lost({*world.working})


SCHEDULES = draws.fixed_dictionaries(
    {
        "workers": draws.integers(2, 5),
        "order": draws.integers(0, 2**32),
        "most_deaths": draws.integers(0, 6),
        "looks_ahead": draws.booleans(),
    }
)
QUIETLY = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=150, **QUIETLY)
@given(SCHEDULES)
def test_any_schedule_of_deaths_and_restarts(schedule: dict):
    play(**schedule)


@pytest.mark.thorough
@settings(max_examples=5000, **QUIETLY)
@given(SCHEDULES)
def test_thousands_of_schedules(schedule: dict):
    play(**schedule)
