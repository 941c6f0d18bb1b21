"""How parameter servers cut a model: chunks, when each is ready and which layer waits for it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import final

from paceline.arithmetic.step import ComputeStep


@final
@dataclass(frozen=True, kw_only=True)
class ChunkPlan:
    """A piece of one server's part, the same of every server of a group."""

    num_bytes: float
    after_forward_s: float
    """How long after the forward pass its gradient is finished."""
    first_layer: int
    """The first layer that needs its new values; layers behind it need it too."""
    back_bytes: float
    """The values in it, which are added, applied and answered: of rows their names not."""
    server: int | None = None
    """Whose it is; None: every server of a group has one like it."""


def chunk_plans(
    step: ComputeStep, num_servers: int, chunk_bytes: int, *, most: int
) -> list[ChunkPlan]:
    """Cut each server's part into chunks: of `chunk_bytes`, or larger ones if they are too many.

    The k-th chunks of all servers are finished at about the same time: together they are a stretch
    of the model. They are listed in the order in which back-propagation finishes them.
    """
    total, part = step.num_bytes, step.num_bytes / num_servers
    ends = list(accumulate(each.num_bytes for each in step.layers))
    ready = _ready_after_forward(step)
    plans, start = [], 0.0
    for size in chunk_sizes(part, chunk_bytes, most):
        first = min(bisect_right(ends, num_servers * start), len(ends) - 1)
        plans.append(
            ChunkPlan(
                num_bytes=size,
                after_forward_s=ready[first],
                first_layer=first,
                back_bytes=size,
            )
        )
        start = min(part, start + size)
    assert total == 0 or abs(start - part) <= 1e-6 * part
    return [*plans[::-1], *_rows(step, num_servers)]


def dealt_plans(
    step: ComputeStep, num_servers: int, chunk_bytes: int, most: int
) -> list[ChunkPlan]:
    """Cut a model into equal chunks and deal them out to the servers in turn, as they are."""
    rounds = max(1, math.ceil(step.num_bytes / (num_servers * chunk_bytes)))
    count = num_servers * max(1, min(rounds, most // num_servers))
    size = step.num_bytes / count
    ends = list(accumulate(each.num_bytes for each in step.layers))
    ready = _ready_after_forward(step)
    plans = []
    for index in range(count):
        first = min(bisect_right(ends, size * index), len(ends) - 1)
        plans.append(
            ChunkPlan(
                num_bytes=size,
                after_forward_s=ready[first],
                first_layer=first,
                back_bytes=size,
                server=index % num_servers,
            )
        )
    return [*plans[::-1], *_rows(step, num_servers)]


def _rows(step: ComputeStep, num_servers: int) -> list[ChunkPlan]:
    """The rows that a batch touches: pushed with their gradients, then the next ones pulled."""
    if step.rows is None:
        return []
    return [
        ChunkPlan(
            num_bytes=step.rows.sent_bytes / num_servers,
            after_forward_s=step.compute_s - step.forward_s,
            first_layer=0,
            back_bytes=step.rows.received_bytes / num_servers,
        )
    ]


def chunk_sizes(part: float, chunk_bytes: float, most_chunks: int) -> list[float]:
    """Cut a part of a model; where that makes too many, larger ones in the middle.

    The first and the last decide how soon something moves and how much is left when all is in, so
    those stay as they are.
    """
    count = max(1, math.ceil(part / chunk_bytes))
    if count <= most_chunks:
        full = [float(chunk_bytes)] * (count - 1)
        return [*full, part - sum(full)]
    half = max(1, most_chunks // 2)
    growth = _growth(part / chunk_bytes / 2, half)
    rising = [chunk_bytes * growth**each for each in range(half)]
    scale = part / (2 * sum(rising))
    return [scale * each for each in (*rising, *reversed(rising))]


def _growth(total: float, count: int) -> float:
    """Find by what terms must grow from 1 for `count` of them to add up to `total`."""
    low, high = 1.0, max(2.0, float(total ** (1 / max(1, count - 1))))
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**each for each in range(count)) < total:
            low = middle
        else:
            high = middle
    return high


def _ready_after_forward(step: ComputeStep) -> list[float]:
    """Say of each layer how long after the forward pass its gradient is finished."""
    backward = [each.backward_s for each in reversed(step.layers)]
    return list(accumulate(backward))[::-1]
