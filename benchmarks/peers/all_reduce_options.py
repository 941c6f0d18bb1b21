"""What the all-reduce of every peer is told, how its calls are timed, and what is printed."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

VALUE_BYTES = 4
WARM_UP_PART = 10


@dataclass(frozen=True)
class AllReduce:
    """The sum of one float32 vector a rank, so many times."""

    ranks: int
    bytes: int
    iterations: int

    @property
    def num_values(self) -> int:
        return self.bytes // VALUE_BYTES


def read(description: str | None) -> AllReduce:
    parser = argparse.ArgumentParser(description=description)
    for name in ("--ranks", "--bytes", "--iterations"):
        parser.add_argument(name, type=int, required=True)
    return AllReduce(**vars(parser.parse_args()))


def time_calls(
    call: Callable[[], object], barrier: Callable[[], object], iterations: int
) -> list[float]:
    """Seconds of each call, after some that do not count."""
    for _ in range(1 + iterations // WARM_UP_PART):
        call()
    barrier()
    times = []
    for _ in range(iterations):
        began_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - began_s)
    return times


def answer(times: list[float]) -> None:
    print(json.dumps({"seconds": statistics.median(times)}), flush=True)
