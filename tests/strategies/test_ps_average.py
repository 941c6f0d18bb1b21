"""Averages with a worker to spare: nobody waits for gradients that nobody will bring."""

from collections.abc import Iterator
from typing import final

import pytest
import torch
from torch import Tensor

from paceline.optim import Sgd, Update
from paceline.strategies.parameter_server.application import Average
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.keep import Keep
from paceline.strategies.parameter_server.link import LAST, LEAVE, PULL, Arrival, ServerLink

CHUNKS = [Chunk(0, 0, 0, 2), Chunk(0, 1, 2, 4)]


@final
class Answers(ServerLink):
    """Keeps what a server answers: to whom, which chunk, with which flags."""

    def __init__(self) -> None:
        self.changes = [0] * len(CHUNKS)
        self.given: list[tuple[int, int, int]] = []

    def place_parameters(self, initial: Tensor) -> Tensor:
        return initial

    def arrivals(self) -> Iterator[Arrival]:
        raise NotImplementedError

    def answer(
        self, worker: int, chunk: Chunk, parameters: Tensor, version: int, flags: int
    ) -> None:
        self.given.append((worker, chunk.index, flags))

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


def average(link: Answers, most_steps: int | None) -> Average:
    """Updates of two gradients by three workers."""
    values = torch.zeros(4)
    keep = Keep(values, update=Update(Sgd(), values), row_update=None, chunks=CHUNKS, link=link)
    return Average(keep, 2, 3, most_steps)


def push(rule: Average, worker: int, version: int, chunks: list[Chunk] = CHUNKS) -> None:
    for chunk in chunks:
        rule.take(Arrival(worker, chunk, 0, version, torch.ones(2)))


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
        for chunk in CHUNKS:
            rule.pull(Arrival(worker, chunk, PULL | LEAVE, 0, torch.ones(0)))
        if worker == 1:  # worker 2 may still come
            assert link.taken() == [(1, 0, 0), (1, 1, 0)]
    assert link.taken() == [(0, 0, LAST), (2, 0, LAST), (2, 1, LAST)]
    push(rule, 0, 0, CHUNKS[1:])
    assert link.taken() == [(0, 1, LAST)]
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
