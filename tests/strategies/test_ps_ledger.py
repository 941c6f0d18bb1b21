"""The ledger: each push of each incarnation of a worker is applied once or not at all.

Every push has a place of its own in the parameters, in each chunk, and a gradient that is 1 there
and 0 elsewhere. What the place holds at the end says how often that push was applied.
"""

from dataclasses import dataclass, field

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
CHUNKS = [Chunk(0, index, index * MOST_PUSHES, (index + 1) * MOST_PUSHES) for index in range(2)]
WORKERS = 3
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

    whole: set[int] = field(default_factory=set)
    num_places: int = 0


def play(rule: Each | Average, link: Answers, acts: list[tuple[int, str]]) -> Ledger:
    there, ledger = {worker: Pusher() for worker in range(WORKERS)}, Ledger()
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
        hear(link, there)
    return ledger


def hear(link: Answers, there: dict[int, Pusher]) -> None:
    """Whoever has its answers, or hears that nothing of its push is wanted, may push again."""
    for worker, chunk, flags in link.taken():
        pusher = there.get(worker)
        if pusher is not None:
            pusher.num_answered += len(CHUNKS) if flags & VOID else chunk != ALONE


def send(rule: Each | Average, worker: int, pusher: Pusher, ledger: Ledger) -> None:
    if pusher.num_sent == len(CHUNKS):
        if pusher.num_answered < len(CHUNKS):
            return
        pusher.num_sent = pusher.num_answered = 0
        pusher.number, pusher.version = pusher.number + 1, rule.keep.version
    if not pusher.num_sent:
        pusher.place, ledger.num_places = ledger.num_places, ledger.num_places + 1
    gradient = torch.zeros(MOST_PUSHES)
    gradient[pusher.place] = 1.0
    chunk = CHUNKS[pusher.num_sent]
    rule.take(Arrival(worker, chunk, WORD, pusher.version, gradient, push=pusher.number))
    pusher.num_sent += 1
    if pusher.num_sent == len(CHUNKS):
        ledger.whole.add(pusher.place)


def kept(link: Answers) -> ServerParameters:
    values = torch.zeros(len(CHUNKS) * MOST_PUSHES)
    update = Update(Sgd(lr=1.0), values)
    return ServerParameters(values, update=update, row_update=None, chunks=CHUNKS, link=link)


def applied(rule: Each | Average) -> torch.Tensor:
    """How often each push was applied, by chunk and place; of an average, its part of it."""
    values: torch.Tensor = rule.keep.state()["parameters"]
    return -values.reshape(len(CHUNKS), MOST_PUSHES)


@settings(max_examples=400, deadline=None)
@given(acts=ACTS)
def test_each_push_that_came_whole_is_applied_once_and_no_other_twice(acts):
    link = Answers()
    rule = Each(kept(link), Free(), range(WORKERS), None)
    ledger = play(rule, link, acts)
    counts = applied(rule)
    assert set(counts.flatten().tolist()) <= {0.0, 1.0}
    for place in ledger.whole:
        assert counts[:, place].tolist() == [1.0, 1.0]
    assert rule.keep.version >= len(ledger.whole)
    assert rule.keep.tally.updates == rule.keep.version


@settings(max_examples=400, deadline=None)
@given(acts=ACTS)
def test_no_gradient_is_in_two_averages(acts):
    link = Answers()
    rule = Average(kept(link), WORKERS, range(WORKERS), None)
    play(rule, link, acts)
    shares = applied(rule)
    assert (shares <= 1.0).all()
    # An update hands out shares that are 1 together, in each chunk that it has applied: all of
    # them, unless every worker of it is gone. One more may be under way.
    totals = shares.sum(dim=1)
    assert rule.keep.version - 1e-3 <= totals.max() <= rule.keep.version + 1 + 1e-3
