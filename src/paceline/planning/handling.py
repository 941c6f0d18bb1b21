"""What handling messages and gradients costs this machine's processor: a second of measuring.

A server receives chunks, adds them up, applies them and sends the result. Here each of the four is
done for a moment, through the same libraries: torch for arithmetic, ZeroMQ over TCP for messages.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from statistics import median
from time import process_time, thread_time
from typing import Final

import torch
import zmq

from paceline.arithmetic.costs import Costs
from paceline.training.optim import Optimizer, Update

_CHUNK_BYTES: Final = 1 << 20
_TRIALS: Final = 40
_SMALL_BYTES: Final = 1 << 10
_NUM_SMALL: Final = 400
_NUM_LARGE: Final = 40
_NUM_KEPT: Final = 16
"""As many messages are on their way to a server."""
_WAIT_MS: Final = 10_000


def handling_costs(optimizer: Optimizer, dtype: torch.dtype = torch.float32) -> Costs:
    """Measure what adding, applying and a message take, of one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a server has; more would wait for each other
    try:
        return _measured(optimizer, dtype)
    finally:
        torch.set_num_threads(threads)


def _measured(optimizer: Optimizer, dtype: torch.dtype) -> Costs:
    count = _CHUNK_BYTES // dtype.itemsize
    # A server's chunks come from memory, not from a cache: each is another one.
    gradients = [torch.full((count,), 1e-3, dtype=dtype) for _ in range(_TRIALS)]
    update = Update(optimizer, torch.zeros(_TRIALS * count, dtype=dtype))
    pairs = itertools.cycle(zip(gradients, [*gradients[1:], gradients[0]], strict=True))
    starts = itertools.cycle(range(0, _TRIALS * count, count))

    def add() -> None:
        first, second = next(pairs)
        first.add_(second)

    small_s = _message_s(_SMALL_BYTES, _NUM_SMALL)
    large_s = _message_s(_CHUNK_BYTES, _NUM_LARGE)
    return Costs(
        message_s=small_s,
        copy_s_per_byte=max(0.0, large_s - small_s) / _CHUNK_BYTES,
        add_s_per_byte=_typical_s(add) / _CHUNK_BYTES,
        apply_s_per_byte=_typical_s(lambda: update.apply(gradients[0], 1, next(starts)))
        / _CHUNK_BYTES,
    )


def _typical_s(act: Callable[[], object]) -> float:
    times = []
    for _ in range(_TRIALS):
        began_s = thread_time()
        act()
        times.append(thread_time() - began_s)
    return median(times)


def _message_s(num_bytes: int, count: int) -> float:
    """Give the processor's time for one end of a message: half of what both ends take.

    Messages come from memory and go into memory, as gradients do: what is sent again and again from
    a page of zeros, and received into the same memory, never leaves the cache.
    """
    values = itertools.cycle([memoryview(b"1" * num_bytes) for _ in range(_NUM_KEPT)])
    kept = deque[zmq.Frame](maxlen=_NUM_KEPT)
    with zmq.Context() as context, context.socket(zmq.PULL) as inbox:
        inbox.setsockopt(zmq.RCVTIMEO, _WAIT_MS)
        port = inbox.bind_to_random_port("tcp://127.0.0.1")
        with context.socket(zmq.PUSH) as outbox:
            outbox.setsockopt(zmq.SNDTIMEO, _WAIT_MS)
            outbox.connect(f"tcp://127.0.0.1:{port}")

            def pass_on(times: int) -> None:
                for _ in range(times):
                    outbox.send(next(values), copy=False)
                    kept.append(inbox.recv(copy=False))

            pass_on(_NUM_KEPT)  # memory that was never written to is not there yet
            began_s = process_time()
            pass_on(count)
            return (process_time() - began_s) / count / 2
