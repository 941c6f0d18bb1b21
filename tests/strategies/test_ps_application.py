"""How gradients become updates: nobody waits for what nobody will bring, whoever comes and goes."""

from collections.abc import Callable, Iterator
from random import Random
from typing import final

import pytest
import torch
from torch import Tensor

from paceline.errors import StateError
from paceline.strategies.parameter_server.application import Application
from paceline.strategies.parameter_server.average import Average
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.each import Each
from paceline.strategies.parameter_server.link import (
    BARE,
    DECIDED,
    KEPT,
    LAST,
    LEAVE,
    PULL,
    REFUSED,
    RELEASE,
    STAND,
    VOID,
    WAIT,
    WORD,
    Arrival,
    Greeting,
    ServerLink,
)
from paceline.strategies.parameter_server.rules import Bounded
from paceline.strategies.parameter_server.server_parameters import ServerParameters
from paceline.testing.states import assert_equal
from paceline.training.optim import Sgd, Update
from paceline.training.state import copied

CHUNKS = [Chunk(0, 0, 0, 2), Chunk(0, 1, 2, 4)]
WHOLE = Chunk(0, 0, 0, 4)
ALONE = -1  # in the place of a chunk: a decision that came with none


@final
class Answers(ServerLink):
    """Keeps what a server answers: to whom, which chunk, with which flags."""

    def __init__(self) -> None:
        self.changes = [0] * len(CHUNKS)
        self.given: list[tuple[int, int, int]] = []
        self.decided: list[int] = []
        self.decided_after: list[int] = []
        """How many answers there were when something was decided."""

    def place_parameters(self, initial: Tensor) -> Tensor:
        return initial

    def arrivals(self) -> Iterator[Arrival]:
        raise NotImplementedError

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        self.given.append((worker, chunk.index, flags & ~DECIDED))
        if flags & DECIDED:
            self.decided.append(worker)
            self.decided_after.append(len(self.given))

    def decide(self, worker: int, version: int, flags: int) -> None:
        self.given.append((worker, ALONE, flags & ~DECIDED))
        self.decided.append(worker)

    def make_table(self, num_rows: int, width: int, dtype: torch.dtype) -> Tensor:
        raise NotImplementedError

    def answer_rows(self, worker: int, values: Tensor, version: int) -> None:
        raise NotImplementedError

    def taken(self) -> list[tuple[int, int, int]]:
        given, self.given = self.given, []
        return given


@pytest.fixture
def link() -> Answers:
    return Answers()


def kept(link: Answers, chunks: list[Chunk] = CHUNKS) -> ServerParameters:
    values = torch.zeros(4)
    update = Update(Sgd(), values)
    return ServerParameters(values, update=update, row_update=None, chunks=chunks, link=link)


def average(
    link: Answers, most_steps: int | None, needed: int = 2, num_workers: int = 3
) -> Average:
    """Updates of two gradients by three workers."""
    return Average(kept(link), needed, range(num_workers), most_steps)


def each(link: Answers, admission: Bounded, most_steps: int | None = None) -> Each:
    """Updates of single gradients by as many workers as may go on."""
    starters = [int(worker) for worker in admission.state()["clocks"]]
    return Each(kept(link), admission, starters, most_steps)


def push(rule: Application, worker: int, version: int, chunks: list[Chunk] = CHUNKS) -> None:
    for chunk in chunks:
        rule.take(Arrival(worker, chunk, WORD, version, torch.ones(2), push=version))


def test_after_the_last_update_a_gradient_on_the_newest_parameters_is_answered_too(link: Answers):
    rule = average(link, most_steps=1)
    push(rule, 0, 0)
    push(rule, 1, 0)
    assert link.taken()[-1] == (1, 1, LAST)
    # It copied the parameters after the update that it had no part in: its version is the newest.
    push(rule, 2, 1)
    assert link.taken() == [(2, 0, LAST), (2, 1, LAST)]
    assert rule.keep.tally.dropped == 1


def test_who_waits_is_let_go_when_too_few_are_left(link: Answers):
    rule = average(link, most_steps=None)
    push(rule, 0, 0, CHUNKS[:1])
    for worker in (1, 2):
        assert link.taken() == []
        rule.pull(Arrival(worker, CHUNKS[0], PULL | LEAVE, 0, torch.ones(0)))
        if worker == 1:  # worker 2 may still come
            assert link.taken() == [(1, 0, 0), (1, 1, 0)]
    assert link.taken() == [(0, ALONE, LAST | VOID), (2, 0, LAST), (2, 1, LAST)]
    push(rule, 0, 0, CHUNKS[1:])  # was under way when all was over
    assert link.taken() == []
    assert rule.keep.tally.dropped == 1
    assert rule.keep.tally.updates == 0


@pytest.mark.parametrize("version", [0, 5])
def test_once_too_few_are_left_every_push_is_answered_at_once(version: int, link: Answers):
    rule = average(link, most_steps=None)
    for worker in (1, 2):
        rule.pull(Arrival(worker, CHUNKS[0], PULL | LEAVE, 0, torch.ones(0)))
    link.taken()
    push(rule, 0, version)
    assert link.taken() == [(0, 0, LAST), (0, 1, LAST)]


def test_the_state_of_a_server_is_taken_when_every_push_is_answered(link: Answers):
    rule = average(link, most_steps=None)
    push(rule, 0, 0)
    with pytest.raises(StateError, match=r"gradients of workers \[0\]: still to be applied"):
        rule.state()
    push(rule, 2, 0)
    later = average(Answers(), most_steps=None)
    later.load(copied(rule.state()))
    for each in (rule, later):
        push(each, 1, 0)  # too late for the update before the break
        push(each, 1, 1)
        push(each, 0, 1)
    ours, theirs = (copied(each.state()["keep"]) for each in (later, rule))
    assert later.keep.tally.dropped == 1
    for name in ("version", "parameters"):
        assert_equal({name: ours[name]}, {name: theirs[name]})


def test_so_is_that_of_one_which_applies_each_push(link: Answers):
    rule = each(link, Bounded(range(3), staleness=0))
    rule.take(Arrival(1, CHUNKS[0], WORD, 0, torch.ones(2)))
    with pytest.raises(StateError, match="1 pushes: still to be applied"):
        rule.state()
    rule.take(Arrival(1, CHUNKS[1], WORD, 0, torch.ones(2)))
    later_link = Answers()
    later = each(later_link, Bounded(range(3), staleness=0))
    later.load(copied(rule.state()))
    for worker in (0, 2):
        push(later, worker, 0)
    assert later.keep.version == 3
    assert (1, 1, RELEASE) in later_link.taken()  # it has waited since before the break


def test_a_worker_that_asks_how_it_stands_keeps_its_parameters(link: Answers):
    rule = each(link, Bounded(range(2), staleness=0))
    push(rule, 0, 0)
    link.taken()
    rule.pull(Arrival(0, CHUNKS[1], STAND, 1, torch.ones(0)))
    assert link.taken() == [(0, ALONE, WAIT | KEPT)]


# Who comes and goes.


def test_without_a_worker_that_is_gone_an_update_needs_one_gradient_less(link: Answers):
    rule = average(link, None, needed=3)
    push(rule, 0, 0)
    push(rule, 1, 0, CHUNKS[:1])
    rule.leave(2)
    assert link.taken() == [(0, 0, 0), (1, 0, 0)]  # the chunk that both have brought
    push(rule, 1, 0, CHUNKS[1:])
    assert link.taken() == [(0, 1, 0), (1, 1, 0)]
    assert (rule.keep.version, rule.keep.tally.dropped) == (1, 0)


def test_nothing_of_a_worker_that_is_gone_is_applied(link: Answers):
    rule = average(link, None, needed=2, num_workers=2)
    push(rule, 1, 0)
    rule.leave(1)
    rule.take(Arrival(0, CHUNKS[0], WORD, 0, torch.full((2,), 3.0)))
    rule.take(Arrival(0, CHUNKS[1], WORD, 0, torch.full((2,), 3.0)))
    assert link.taken() == [(0, 0, 0), (0, 1, 0)]
    assert rule.keep.state()["parameters"].tolist() == [pytest.approx(-3 * Sgd().lr)] * 4


def test_who_has_begun_is_waited_for_although_fewer_would_do(link: Answers):
    rule = average(link, None, needed=2)
    push(rule, 0, 0)
    push(rule, 1, 0, CHUNKS[:1])
    rule.leave(2)  # one of two gradients would do from the next update on
    assert link.taken() == [(0, 0, 0), (1, 0, 0)]
    push(rule, 1, 0, CHUNKS[1:])
    assert link.taken() == [(0, 1, 0), (1, 1, 0)]
    push(rule, 0, 1)
    assert link.taken() == [(0, 0, 0), (0, 1, 0)]


def test_who_is_late_for_an_update_that_nobody_completes_goes_on(link: Answers):
    rule = average(link, None, needed=2)
    push(rule, 0, 0, CHUNKS[:1])
    push(rule, 1, 0, CHUNKS[:1])
    push(rule, 2, 0)
    assert link.taken() == [(0, 0, 0), (1, 0, 0)]
    rule.leave(0)
    rule.leave(1)
    assert link.taken() == [(2, 0, 0), (2, 1, 0)]
    assert rule.keep.version == 1  # a part of it was applied
    push(rule, 2, 1)
    assert link.taken() == [(2, 0, 0), (2, 1, 0)]
    assert rule.state()["there"].tolist() == [2]


def test_who_comes_is_part_of_the_next_update(link: Answers):
    rule = average(link, None, needed=2, num_workers=2)
    push(rule, 0, 0)
    assert rule.join(2)
    push(rule, 2, 0)  # strict: an update is not of whoever happens to come first
    push(rule, 1, 0)
    assert link.taken() == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    for worker in (2, 0):
        push(rule, worker, 1)
    assert link.taken() == []
    push(rule, 1, 1)
    assert len(link.taken()) == 6


def test_a_worker_that_comes_back_is_needed_as_before(link: Answers):
    rule = average(link, None, needed=1, num_workers=2)
    rule.leave(0)
    rule.leave(1)
    assert rule.join(1)
    assert rule.join(0)
    push(rule, 0, 0)
    assert link.taken() == [(0, 0, 0), (0, 1, 0)]


def test_who_comes_with_old_parameters_is_answered_while_the_others_wait_for_it(link: Answers):
    rule = average(link, None, needed=2, num_workers=2)
    for worker in (0, 1):
        push(rule, worker, 0)
    assert rule.join(2)
    push(rule, 0, 1)
    link.taken()
    push(rule, 2, 0)  # it took its parameters before that update
    assert link.taken() == [(2, 0, 0), (2, 1, 0)]
    for worker in (2, 1):
        push(rule, worker, 1)
    assert rule.keep.version == 2


def leaves(rule: Average, worker: int) -> None:
    rule.pull(Arrival(worker, CHUNKS[0], PULL | LEAVE, 0, torch.ones(0)))


def greets_as_it_leaves(rule: Average, worker: int) -> None:
    rule.greet(Greeting(worker, 4, 0, is_pending=False, waits=False, leaves=True))


@pytest.mark.parametrize("go", [leaves, greets_as_it_leaves])
def test_who_is_late_is_answered_once_the_update_cannot_do_without_it(
    go: Callable[[Average, int], None], link: Answers
):
    """It was late for a server that went back, and the one that was waited for instead left."""
    rule = average(link, most_steps=None)
    rule.come_back(None, range(3))
    push(rule, 0, 0)
    push(rule, 1, 3)  # on parameters that the server is not at: worker 2 may still bring what lacks
    assert link.taken() == []
    go(rule, 2)
    assert link.taken()[:2] == [(1, 0, 0), (1, 1, 0)]
    push(rule, 1, 0)
    assert rule.keep.version == 1


def test_there_is_no_step_for_who_comes_after_the_last_update(link: Answers):
    rule = average(link, most_steps=1, needed=1, num_workers=1)
    push(rule, 0, 0)
    assert not rule.join(1)


def test_the_leave_of_a_worker_that_is_gone_is_used_by_the_others(link: Answers):
    rule = each(link, Bounded(range(2), staleness=9), most_steps=3)
    rule.leave(1)
    push(rule, 0, 0)
    push(rule, 0, 1)
    assert LAST not in [flags for *_, flags in link.taken()]
    push(rule, 0, 2)
    assert link.taken()[-1] == (0, 1, LAST)
    assert rule.keep.tally.updates == 3


def test_what_was_applied_of_a_push_counts_when_its_worker_is_gone(link: Answers):
    rule = each(link, Bounded(range(2), staleness=9), most_steps=2)
    push(rule, 1, 0, CHUNKS[:1])
    rule.leave(1)
    push(rule, 0, 0)
    assert link.taken()[-1] == (0, 1, LAST)
    assert rule.keep.tally.updates == rule.keep.version == 2
    assert rule.state()["num_begun"] == 2


def test_who_waits_for_a_worker_that_is_gone_is_released(link: Answers):
    rule = each(link, Bounded(range(2), staleness=0))
    push(rule, 0, 0)
    assert link.taken()[-1] == (0, 1, WAIT)
    rule.leave(1)
    assert link.taken() == [(0, 0, RELEASE), (0, 1, RELEASE)]
    assert rule.join(1)
    push(rule, 0, 1)
    assert link.taken()[-1] == (0, 1, WAIT)
    push(rule, 1, 1)
    assert link.taken()[-2:] == [(0, 0, RELEASE), (0, 1, RELEASE)]


def test_there_is_leave_for_who_comes_while_there_are_steps(link: Answers):
    rule = each(link, Bounded(range(2), staleness=9), most_steps=3)
    assert rule.join(2)
    assert not rule.join(3)
    rule.leave(2)
    assert rule.join(3)


def test_who_comes_when_no_step_is_left_hears_that_and_makes_none(link: Answers):
    rule = each(link, Bounded(range(2), staleness=9), most_steps=2)
    assert not rule.join(2)
    rule.pull(Arrival(2, CHUNKS[0], PULL, 0, torch.ones(0), push=0))
    assert {flags for *_, flags in link.taken()} == {LAST}
    rule.pull(Arrival(1, CHUNKS[0], PULL, 0, torch.ones(0), push=0))
    assert {flags for *_, flags in link.taken()} == {0}


# Gradients that come before their word, in any order.


def early(rule: Application, worker: int, index: int, value: float = 1.0, number: int = 0) -> None:
    gradient = torch.full((2,), value)
    rule.take(Arrival(worker, CHUNKS[index], 0, number, gradient, push=number))


def say(rule: Application, worker: int, flags: int = 0, number: int = 0) -> None:
    rule.take(Arrival(worker, CHUNKS[0], flags | WORD | BARE, number, torch.ones(0), push=number))


def values_of(rule: Application) -> list[float]:
    return rule.keep.state()["parameters"].tolist()


def test_a_chunk_is_sent_ahead_and_the_word_decides(link: Answers):
    rule = average(link, None, needed=2, num_workers=2)
    for worker in (1, 0):
        early(rule, worker, 1)
    assert link.taken() == [(0, 1, 0), (1, 1, 0)]
    assert link.decided == []
    say(rule, 0)
    say(rule, 1)  # before its first layer came: it is the last to be sent
    assert sorted(link.decided) == [0, 1]
    assert rule.keep.version == 0
    link.taken()
    for worker in (0, 1):
        early(rule, worker, 0)
    assert link.taken() == [(0, 0, 0), (1, 0, 0)]
    assert (rule.keep.version, values_of(rule)) == (1, [pytest.approx(-Sgd().lr)] * 4)


def test_a_refused_gradient_undoes_what_was_sent_ahead(link: Answers):
    rule = average(link, None, needed=2, num_workers=2)
    for worker in (0, 1):
        early(rule, worker, 1)
    link.taken()
    say(rule, 0)
    say(rule, 1, REFUSED)
    void = REFUSED | VOID
    assert link.taken() == [(0, 1, 0), (0, ALONE, void), (1, 1, 0), (1, ALONE, void)]
    assert (rule.keep.version, values_of(rule)) == (0, [0.0] * 4)
    early(rule, 0, 0)  # was under way
    assert link.taken() == []
    for worker in (0, 1):
        for index in (1, 0):
            early(rule, worker, index, number=1)
        say(rule, worker, number=1)
    assert rule.keep.tally.updates == 1


def test_a_worker_that_dies_in_the_middle_of_its_push_leaves_nothing_behind(link: Answers):
    rule = average(link, None, needed=3)
    for worker in (0, 1, 2):
        early(rule, worker, 1, value=torch.nan if worker == 2 else 1.0)
    say(rule, 0)
    link.taken()
    rule.leave(2)  # nobody knows whether its gradient was finite: it was not
    told = link.taken()
    assert [each for each in told if each[1] == ALONE] == [
        (worker, ALONE, REFUSED | VOID) for worker in (0, 1)
    ]
    assert values_of(rule) == [0.0] * 4
    say(rule, 1)  # under way when it happened
    for worker in (0, 1):
        push(rule, worker, 3)
    assert (rule.keep.version, rule.keep.tally.updates) == (1, 1)


@pytest.mark.parametrize("whole", [True, False])
def test_a_push_of_its_own_waits_for_its_word_or_not(whole: bool, link: Answers):
    rule = Each(kept(link), Bounded(range(1), 9), [0], None, whole=whole)
    early(rule, 0, 1)
    assert link.taken() == ([] if whole else [(0, 1, 0)])
    early(rule, 0, 0)
    assert link.decided == []
    say(rule, 0)
    assert link.decided == [0]
    assert rule.keep.version == 1
    assert values_of(rule) == [pytest.approx(-Sgd().lr)] * 4


@pytest.mark.parametrize("decides_first", [True, False])
def test_the_first_answer_to_a_whole_push_says_what_became_of_it(
    decides_first: bool, link: Answers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Answers, "decides_first", decides_first)
    rule = each(link, Bounded(range(1), 9))
    for index in (1, 0):
        early(rule, 0, index)
    say(rule, 0)
    assert link.given == [(0, 0, 0), (0, 1, 0)]  # first layers first
    assert link.decided_after == [1 if decides_first else 2]
    assert values_of(rule) == [pytest.approx(-Sgd().lr)] * 4
    early(rule, 0, 1, number=1)
    say(rule, 0, number=1)  # a chunk is still under way: nothing can be said before it is here
    assert link.decided_after == [1 if decides_first else 2]
    early(rule, 0, 0, number=1)
    assert link.decided_after[1:] == [4]
    assert rule.keep.tally.updates == 2


def test_of_a_push_that_was_kept_for_its_word_nothing_is_applied_when_its_worker_dies(
    link: Answers,
):
    rule = Each(kept(link), Bounded(range(2), 9), [0, 1], None)
    early(rule, 0, 1)
    with pytest.raises(StateError, match="1 pushes"):
        rule.state()
    rule.leave(0)
    assert values_of(rule) == [0.0] * 4
    assert rule.keep.tally.updates == 0


# A word that comes along with the only chunk there is.


def in_one(rule: Application, worker: int, number: int, flags: int) -> None:
    gradient = torch.full((4,), 1.0 + worker + number)
    flags |= WORD | (BARE if flags & REFUSED else 0)
    rule.take(Arrival(worker, WHOLE, flags, 0, gradient, push=number))


def in_two(rule: Application, worker: int, number: int, flags: int) -> None:
    gradient = torch.full((4,), 1.0 + worker + number)
    rule.take(Arrival(worker, WHOLE, 0, 0, gradient, push=number))
    rule.take(Arrival(worker, WHOLE, flags | WORD | BARE, 0, gradient, push=number))


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_in_one_counts_as_what_comes_in_two(seed: int):
    """Whoever may go on pushes next; some wish to stop, some are refused, one may be gone."""
    links, random = (Answers(), Answers()), Random(seed)
    one, two = (
        Each(kept(link, [WHOLE]), Bounded(range(3), seed % 3), range(3), 12) for link in links
    )
    may_go, numbers = {0, 1, 2}, [0, 0, 0]
    while may_go:
        worker = random.choice(sorted(may_go))
        if random.random() < 0.05:
            may_go.discard(worker)
            one.leave(worker)
            two.leave(worker)
        else:
            numbers[worker] += 1
            flags = random.choice([0] * 8 + [REFUSED, LAST])
            in_one(one, worker, numbers[worker], flags)
            in_two(two, worker, numbers[worker], flags)
        told, as_told = (link.taken() for link in links)
        assert told == as_told
        for each, _, told_flags in told:
            (may_go.discard if told_flags & (LAST | WAIT) else may_go.add)(each)
    assert links[0].decided == links[1].decided
    assert one.keep.tally.refused == two.keep.tally.refused
    assert one.keep.version == one.keep.tally.updates == two.keep.tally.updates
    assert values_of(one) == values_of(two)
    assert [one.num_pushes(worker) for worker in range(3)] == [
        two.num_pushes(worker) for worker in range(3)
    ]


def test_one_that_comes_again_is_not_applied_again(link: Answers):
    rule = Each(kept(link, [WHOLE]), Bounded(range(1), 9), [0], None)
    for _ in range(2):
        in_one(rule, 0, 7, 0)
    assert link.taken() == [(0, 0, 0)]
    assert (rule.keep.version, rule.num_pushes(0)) == (1, 1)
