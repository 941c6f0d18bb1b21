"""All-reduce by messages beside Gloo's: speed, and processor time per GB of both.

    python benchmarks/messages.py [--ranks 3] [--blocks 24] [--sizes 1000000,10000000,100000000]

Both are there in the same processes, over TCP on loopback, and take turns block by block, so that a
machine that is busy with other things is busy for both. A block is 200 MB of sums of one float32
tensor; its speed is as rank 0 sees it, its processor time that of all ranks. Ratios are of two
blocks that follow each other. A minute, and no longer than `--most-s` for a size. On a machine that
others use, `chrt -r 1` in front has it go before them (root only): processes that compute all the
time wait longer for a core than those that often sleep, which says nothing about either side.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from peers.common import free_ports
from trials import spread

from paceline.comm.allreduce.base import AllReduce
from paceline.testing.ranks import AllReduceKind, reduce_together

WANTED = 1.0
SIZES = (1_000_000, 10_000_000, 100_000_000)
BYTES_PER_BLOCK = 200_000_000
GB = 1e9


@dataclass(frozen=True)
class Block:
    """What one rank saw of one block of ours, and of Gloo's beside it."""

    ours_s: float
    ours_cpu_s: float
    gloo_s: float
    gloo_cpu_s: float


def take_turns(
    num_bytes: int, num_blocks: int, most_s: float, port: int, all_reduce: AllReduce
) -> list[list[float]]:
    """Have one rank's part in all blocks of a size."""
    import torch
    from torch import distributed

    distributed.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=all_reduce.rank,
        world_size=all_reduce.num_ranks,
    )
    values = torch.zeros(num_bytes // 4)
    num_calls = max(2, BYTES_PER_BLOCK // num_bytes)
    sides = (partial(all_reduce.reduce, values), partial(distributed.all_reduce, values))
    for side in sides:  # connections are made with the first
        side()
    blocks, began_s = [], time.perf_counter()
    for number in range(num_blocks):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        timed = {index: _timed(sides[index], num_calls, all_reduce) for index in order}
        blocks.append([*timed[0], *timed[1]])
        if max(all_reduce.gather(int(time.perf_counter() - began_s))) >= most_s:
            break
    distributed.destroy_process_group()
    return blocks


def _timed(call: Callable[[], Any], num_calls: int, all_reduce: AllReduce) -> tuple[float, float]:
    all_reduce.gather(0)  # a barrier
    began_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(num_calls):
        call()
    return (time.perf_counter() - began_s) / num_calls, (time.process_time() - cpu_s) / num_calls


def blocks_of(
    kind: AllReduceKind, num_ranks: int, num_bytes: int, num_blocks: int, most_s: float
) -> list[Block]:
    (port,) = free_ports(1)
    body = partial(take_turns, num_bytes, num_blocks, most_s, port)
    by_rank = reduce_together(kind, num_ranks, body, tcp=True)
    return [_of_all_ranks(seen) for seen in zip(*by_rank, strict=True)]


def _of_all_ranks(seen: tuple[list[float], ...]) -> Block:
    ours_s, _, gloo_s, _ = seen[0]
    return Block(ours_s, sum(each[1] for each in seen), gloo_s, sum(each[3] for each in seen))


def say(blocks: list[Block], num_bytes: int, num_ranks: int) -> bool:
    """Print every block and what they come to; returns whether we are at least as fast."""
    gb = num_bytes / GB
    print(f"\n{num_bytes / 1e6:g} MB, n={num_ranks}: ms per call, and CPU seconds per GB")
    for each in blocks:
        print(
            f"  ours {1e3 * each.ours_s:8.2f} ms {each.ours_cpu_s / gb:6.2f} s/GB   "
            f"Gloo {1e3 * each.gloo_s:8.2f} ms {each.gloo_cpu_s / gb:6.2f} s/GB"
        )
    speeds = [each.gloo_s / each.ours_s for each in blocks]
    costs = [each.ours_cpu_s / each.gloo_cpu_s for each in blocks]
    verdict = "met" if statistics.median(speeds) >= WANTED else "MISSED"
    print(f"  times Gloo's speed: {spread(speeds, 2)}; wanted {WANTED:.2f}: {verdict}")
    print(f"  processor time over Gloo's: {spread(costs, 2)}", flush=True)
    return verdict == "met"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--most-s", type=float, default=60.0, help="for one size")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), metavar="BYTES,...")
    arguments = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    are_met = True
    for num_bytes in map(int, arguments.sizes.split(",")):
        blocks = blocks_of("ring", arguments.ranks, num_bytes, arguments.blocks, arguments.most_s)
        are_met &= say(blocks, num_bytes, arguments.ranks)
    return 0 if are_met else 1


if __name__ == "__main__":
    sys.exit(main())
