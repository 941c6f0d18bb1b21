"""What workers of a ring that meet again share."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import torch

from paceline.comm.allreduce.mail import Mail
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.strategies.all_reduce.regrouping import share
from tests.comm.lines import line_of_a_seat

NAMES = ("worker0", "worker1", "worker2")


def test_every_bit_of_the_source_comes_to_all_and_stays_with_it():
    """Others keep what they have already, and all are compared bit by bit later."""
    boxes = boxes_for(NAMES)
    values = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf")])
    counts = torch.tensor([0, -3, 7])

    def take(rank: int) -> list[torch.Tensor]:
        own = [values.clone(), counts.clone()] if rank == 1 else [values + 1, counts + 1]
        driver, line = line_of_a_seat()
        with contextlib.closing(driver), contextlib.closing(line):
            mail = Mail(MemoryChannel(NAMES[rank], boxes, line))
            return share(RingAllReduce(rank, NAMES, mail), 1, own)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        for floats, whole in pool.map(take, range(len(NAMES)), timeout=60):
            assert torch.equal(floats.view(torch.int32), values.view(torch.int32))
            assert torch.equal(whole, counts)
