"""How long a step should take, by arithmetic alone: what a measured step is held against.

A step is bounded by computing, and by what of the communication computing cannot hide. Nothing
else is in it: adding up, applying, protocol and scheduling cost nothing here, so a measured step
is a little longer, and one that is much longer has a reason worth finding.

- `ring` sends gradients off bucket by bucket while earlier layers are still computed. Each bucket
  takes 2 (N - 1) / N of its bytes over the link, one after the other.
- The parameter servers push when back-propagation has ended, so none of their communication is
  hidden. A chunk's new parameters leave while later chunks still arrive, and a link carries both
  ways at once: the exchange takes what the busiest node has to take in, plus one chunk of each
  worker's, which comes back after the last has arrived.
- For `ps-async` there are two answers: for workers in step with each other, and spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

# Of a full Ethernet frame of 1,514 bytes, TCP with time stamps carries 1,448.
PAYLOAD_SHARE: Final = 1448 / 1514
BUCKET_BYTES: Final = 4 << 20
CHUNK_BYTES: Final = 1 << 20


@final
@dataclass(frozen=True, kw_only=True)
class Gradient:
    """What one layer has to exchange, and when in a step it is finished."""

    ready_s: float
    num_bytes: int


@final
@dataclass(frozen=True, kw_only=True)
class Step:
    """A worker's step without any exchange."""

    compute_s: float
    gradients: tuple[Gradient, ...]
    """In the order back-propagation finishes them."""

    @property
    def num_bytes(self) -> int:
        return sum(each.num_bytes for each in self.gradients)

    @staticmethod
    def of(layers: Sequence[tuple[float, float, int]]) -> Step:
        """Make one of (seconds forward, seconds backward, bytes), in the order of computing."""
        passed_s = sum(forward_s for forward_s, _, _ in layers)
        gradients = []
        for _, backward_s, num_bytes in reversed(layers):
            passed_s += backward_s
            if num_bytes:
                gradients.append(Gradient(ready_s=passed_s, num_bytes=num_bytes))
        return Step(compute_s=passed_s, gradients=tuple(gradients))


@final
@dataclass(frozen=True, kw_only=True)
class Link:
    """A node's link, which carries as much out as in, at once."""

    bits_per_s: float

    def seconds(self, num_bytes: float) -> float:
        """How long so many bytes of values take to cross it one way."""
        return num_bytes / (self.bits_per_s / 8 * PAYLOAD_SHARE)


def ring_step_s(
    step: Step, link: Link, num_workers: int, bucket_bytes: int = BUCKET_BYTES
) -> float:
    """Predict a step of `ring`."""
    each_way = 2 * (num_workers - 1) / num_workers
    ended_s = 0.0
    for ready_s, num_bytes in _buckets(step, bucket_bytes):
        ended_s = max(ended_s, ready_s) + link.seconds(each_way * num_bytes)
    return max(step.compute_s, ended_s)


def _buckets(step: Step, bucket_bytes: int) -> list[tuple[float, int]]:
    """Group gradients as `ring` does: when each bucket may leave, and its bytes.

    The last one waits for the end of the step.
    """
    buckets: list[tuple[float, int]] = []
    for each in step.gradients:
        if buckets and buckets[-1][1] + each.num_bytes <= bucket_bytes:
            buckets[-1] = (each.ready_s, buckets[-1][1] + each.num_bytes)
        else:
            buckets.append((each.ready_s, each.num_bytes))
    return [*buckets[:-1], (step.compute_s, buckets[-1][1])] if buckets else []


def ps_sync_step_s(
    step: Step,
    link: Link,
    num_workers: int,
    *,
    num_servers: int = 1,
    separate: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> float:
    """Predict a step of `ps-sync`; `separate` servers have nodes of their own."""
    busiest = _busiest_bytes(step.num_bytes, num_workers, num_servers, separate=separate)
    if not busiest:
        return step.compute_s
    crossing = num_workers if separate else num_workers - 1
    last = crossing * min(chunk_bytes, step.num_bytes / num_servers)
    return step.compute_s + link.seconds(busiest + last)


def ps_async_steps_per_s(
    step: Step,
    link: Link,
    num_workers: int,
    *,
    num_servers: int = 1,
    separate: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    spread: bool = False,
) -> float:
    """Predict the steps a second of all workers of `ps-async` together.

    Workers that take equally long and start together stay in step: they compute together, then
    share the server's link, as if they were synchronous. Nothing holds them there, and where their
    times vary they spread: while some exchange, others compute. `spread` gives the most that this
    can bring: each worker's own cycle, until the busiest link is full all the time.

    A worker beside the only server needs no link.
    """
    beside = 0 if separate or num_servers > 1 else 1
    crossing = num_workers - beside
    alone = beside / step.compute_s
    if not crossing:
        return alone
    last = min(chunk_bytes, step.num_bytes / num_servers)
    busiest = _busiest_bytes(step.num_bytes, num_workers, num_servers, separate=separate)
    if spread:
        own_s = step.compute_s + link.seconds(step.num_bytes + last)
        return alone + crossing / max(own_s, link.seconds(busiest))
    return alone + crossing / (step.compute_s + link.seconds(busiest + crossing * last))


def _busiest_bytes(num_bytes: int, num_workers: int, num_servers: int, *, separate: bool) -> float:
    """How much the busiest node takes in a step, and as much sends: a server's, or a worker's."""
    part = num_bytes / num_servers
    if separate:
        return max(num_workers * part, float(num_bytes))
    # Beside a worker, which exchanges with the other servers.
    server = (num_workers - 1) * part + (num_servers - 1) * part
    worker = float(num_bytes) if num_workers > num_servers else 0.0
    return max(server, worker)
