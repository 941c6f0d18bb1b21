"""The ledger: each push of each incarnation of a worker is applied once or not at all.

Every push has a place of its own in the parameters, in each chunk, and a gradient that is 1 there
and 0 elsewhere. What the place holds at the end says how often that push was applied.
"""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draws

from paceline.strategies.parameter_server.average import Average
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.each import Each
from paceline.strategies.parameter_server.link import VOID, WORD, Arrival
from paceline.strategies.parameter_server.rules import Free
from paceline.strategies.parameter_server.server_parameters import ServerParameters
from paceline.training.optim import Sgd, Update
from tests.strategies.test_ps_application import ALONE, Answers

MOST_PUSHES = 64
WORKERS = 3
IN_CHUNKS = pytest.mark.parametrize("num_chunks", [1, 2])  # one comes along with its word
# Of one worker: it sends the next chunk of its push, it is killed, it is started again.
ACTS = draws.lists(
    draws.tuples(
        draws.integers(0, WORKERS - 1), draws.sampled_from(["send"] * 6 + ["die", "come"])
    ),
    max_size=MOST_PUSHES,
)


@dataclass
class Pusher:
    """A worker, as a server sees it: its numbers begin anew with each incarnation."""

    number: int = 0
    num_sent: int = 0
    num_answered: int = 0
    place: int = -1
    version: int = 0


@dataclass
class Ledger:
    """Which pushes were sent whole, and which only in part."""

    chunks: list[Chunk]
    whole: set[int] = field(default_factory=set)
    num_places: int = 0


def play(rule: Each | Average, link: Answers, acts: list[tuple[int, str]]) -> Ledger:
    there, ledger = {worker: Pusher() for worker in range(WORKERS)}, Ledger(rule.keep.chunks)
    for worker, act in acts:
        pusher = there.get(worker)
        if act == "come" and pusher is None:
            rule.join(worker)
            there[worker] = Pusher(version=rule.keep.version)
        elif act == "die" and pusher is not None and len(there) > 1:
            rule.leave(worker)
            del there[worker]
        elif act == "send" and pusher is not None:
            send(rule, worker, pusher, ledger)
        hear(link, there, len(ledger.chunks))
    return ledger


def hear(link: Answers, there: dict[int, Pusher], num_chunks: int) -> None:
    """Whoever has its answers, or hears that nothing of its push is wanted, may push again."""
    for worker, chunk, flags in link.taken():
        pusher = there.get(worker)
        if pusher is not None:
            pusher.num_answered += num_chunks if flags & VOID else chunk != ALONE


def send(rule: Each | Average, worker: int, pusher: Pusher, ledger: Ledger) -> None:
    num_chunks = len(ledger.chunks)
    if pusher.num_sent == num_chunks:
        if pusher.num_answered < num_chunks:
            return
        pusher.num_sent = pusher.num_answered = 0
        pusher.number, pusher.version = pusher.number + 1, rule.keep.version
    if not pusher.num_sent:
        pusher.place, ledger.num_places = ledger.num_places, ledger.num_places + 1
    gradient = torch.zeros(MOST_PUSHES)
    gradient[pusher.place] = 1.0
    chunk = ledger.chunks[pusher.num_sent]
    rule.take(Arrival(worker, chunk, WORD, pusher.version, gradient, push=pusher.number))
    pusher.num_sent += 1
    if pusher.num_sent == num_chunks:
        ledger.whole.add(pusher.place)


def kept(link: Answers, num_chunks: int) -> ServerParameters:
    values = torch.zeros(num_chunks * MOST_PUSHES)
    starts = range(0, len(values), MOST_PUSHES)
    chunks = [Chunk(0, at, start, start + MOST_PUSHES) for at, start in enumerate(starts)]
    update = Update(Sgd(lr=1.0), values)
    return ServerParameters(values, update=update, row_update=None, chunks=chunks, link=link)


def applied(rule: Each | Average) -> torch.Tensor:
    """How often each push was applied, by chunk and place; of an average, its part of it."""
    values: torch.Tensor = rule.keep.state()["parameters"]
    return -values.reshape(-1, MOST_PUSHES)


@IN_CHUNKS
@settings(max_examples=400, deadline=None)
@given(acts=ACTS)
def test_each_push_that_came_whole_is_applied_once_and_no_other_twice(num_chunks, acts):
    link = Answers()
    rule = Each(kept(link, num_chunks), Free(), range(WORKERS), None)
    ledger = play(rule, link, acts)
    counts = applied(rule)
    assert set(counts.flatten().tolist()) <= {0.0, 1.0}
    for place in ledger.whole:
        assert counts[:, place].tolist() == [1.0] * num_chunks
    assert rule.keep.version >= len(ledger.whole)
    assert rule.keep.tally.updates == rule.keep.version


@IN_CHUNKS
@settings(max_examples=400, deadline=None)
@given(acts=ACTS)
def test_no_gradient_is_in_two_averages(num_chunks, acts):
    link = Answers()
    rule = Average(kept(link, num_chunks), WORKERS, range(WORKERS), None)
    play(rule, link, acts)
    shares = applied(rule)
    assert (shares <= 1.0).all()
    # An update hands out shares that are 1 together, in each chunk that it has applied: all of
    # them, unless every worker of it is gone. One more may be under way.
    totals = shares.sum(dim=1)
    assert rule.keep.version - 1e-3 <= totals.max() <= rule.keep.version + 1 + 1e-3
