"""What a worker leaves is dealt to those who train: how far it was, to whom, and who died since."""

from dataclasses import replace

import pytest

from paceline.comm.roster import Seat, Sitting
from paceline.comm.words import Parted, TakenOver, TakeOver, Word
from paceline.engine.inheritance import Inheritance
from paceline.engine.oddities import Odd
from paceline.engine.progress import Newest
from paceline.training.shares import Share
from paceline.workloads.order import Order
from tests.comm.rows import ROW
from tests.engine.fakes import FakeClock

ORDER = Order(num_rows=300, num_workers=3, batch=10, seed=0)
SEATS = {f"worker{index}": Seat("worker", index, "node0") for index in range(3)}
END = 40


class Scene:
    """Three workers that train, one of which is lost."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.now, self.training = FakeClock(), {*SEATS}
        self.told: list[tuple[str, Word]] = []
        self.newest = Newest(SEATS, batch=10, is_replayed=False)
        self.inheritance = Inheritance(
            ORDER,
            SEATS,
            newest=self.newest,
            tell=lambda name, word: self.told.append((name, word)),
            heirs=lambda: self.training,
            is_on=is_on,
            end=END,
            now=self.now,
        )
        for name, steps in (("worker0", 20), ("worker1", 12), ("worker2", 15)):
            self.newest.take_row(name, replace(ROW, worker_steps=steps, samples=10 * steps))

    def lose(self, name: str, *servers: str) -> None:
        self.training.discard(name)
        self.inheritance.lose(Sitting(seat=SEATS[name]), servers)

    def part(self, name: str, num_pushes: int, server: str = "server0") -> None:
        word = Parted(worker=name, incarnation=0, num_pushes=num_pushes)
        self.inheritance.parted(server, word)
        self.inheritance.attend()

    def told_of(self, name: str) -> list[Share]:
        words = [word for to, word in self.told if to == name and isinstance(word, TakeOver)]
        return [share for word in words for share in word.shares]

    def take_over(self, name: str, num_taken: int) -> None:
        said = TakenOver(len(self.told_of(name)), num_taken)
        self.inheritance.taken_over(SEATS[name], said)


def test_what_is_left_after_the_last_push_that_counts_is_dealt_in_turn():
    scene = Scene()
    scene.lose("worker1", "server0", "server1")
    scene.part("worker1", 13)
    assert not scene.told  # the other server may know of more
    scene.part("worker1", 14, "server1")
    assert scene.told_of("worker0") == [Share(rank=1, start=14, every=2)]
    assert scene.told_of("worker2") == [Share(rank=1, start=15, every=2)]
    assert scene.inheritance.rows_lost(scene.training) == 0


def test_a_server_that_does_not_say_it_is_not_waited_for_for_ever():
    scene = Scene()
    scene.lose("worker1", "server0")
    scene.inheritance.attend()
    assert not scene.told
    scene.now.now_s += 60.0
    scene.inheritance.attend()
    assert scene.told_of("worker0")[0].start == 12  # as far as its last row says


def test_an_heir_that_dies_leaves_what_it_had_taken_over_and_what_it_had_not():
    scene = Scene()
    scene.lose("worker1", "server0")
    scene.part("worker1", 12)
    scene.take_over("worker2", 16)
    scene.lose("worker2", "server0")
    scene.part("worker2", 18)  # two more: of worker1's, which are of an earlier epoch than its own
    given = scene.told_of("worker0")
    assert given[1:] == [Share(rank=2, start=18), Share(rank=1, start=13, every=2)]
    again = Scene()
    again.lose("worker1", "server0")
    again.part("worker1", 12)
    again.lose("worker2", "server0")  # before it has said that it took over anything
    again.part("worker2", 18)
    assert again.told_of("worker0")[1:] == given[1:]


def test_what_one_that_has_trained_was_told_too_late_goes_to_the_next_or_is_counted_as_lost():
    scene = Scene()
    scene.lose("worker1", "server0")
    scene.part("worker1", 30)
    scene.training.discard("worker0")
    scene.inheritance.trained("worker0")
    assert scene.told_of("worker2") == [
        Share(rank=1, start=31, every=2),
        Share(rank=1, start=30, every=2),
    ]
    scene.training.discard("worker2")
    scene.inheritance.trained("worker2")
    scene.newest.take_row("worker0", replace(ROW, worker_steps=END, samples=10 * END))
    assert scene.inheritance.rows_lost({"worker0", "worker2"}) == 10 * (END - 30)


def test_one_that_is_started_again_takes_what_its_predecessor_had_taken_over():
    scene = Scene()
    assert scene.inheritance.shares_of("worker2", 15) == []
    scene.lose("worker1", "server0")
    scene.part("worker1", 12)
    scene.take_over("worker2", 16)
    scene.training.discard("worker2")
    assert scene.inheritance.shares_of("worker0", 20) == [
        Share(rank=0, start=20),
        Share(rank=1, start=12, every=2),  # which it was told, and had not taken over
    ]
    assert scene.inheritance.shares_of("worker2", 18) == [
        Share(rank=2, start=18),
        Share(rank=1, start=13, every=2),
    ]


def test_who_takes_over_what_it_was_not_told_is_odd():
    scene = Scene()
    with pytest.raises(Odd, match="took over 1 shares of 0"):
        scene.inheritance.taken_over(SEATS["worker0"], TakenOver(1, 5))


def test_workers_that_step_together_take_nothing_over():
    scene = Scene(is_on=False)
    scene.lose("worker1", "server0")
    scene.now.now_s += 60.0
    scene.inheritance.attend()
    assert not scene.told
    assert scene.inheritance.rows_lost(scene.training) == 10 * (15 - 12)


def test_pushes_after_the_last_row_are_batches_too_several_each_where_its_steps_take_several():
    newest = Newest(SEATS, batch=10, is_replayed=False)
    newest.joined("worker0", 100)  # in the run that this one goes on from
    newest.take_row("worker0", replace(ROW, worker_steps=110, samples=2200))
    newest.parted("worker0", 12)
    assert newest.num_taken("worker0") == 224
    newest.entered("worker0", 224)
    newest.joined("worker0", 0)
    newest.parted("worker0", 3)
    assert newest.num_taken("worker0") == 227
