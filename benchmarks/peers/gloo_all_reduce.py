"""All-reduce of torch.distributed on Gloo: seconds a call, among processes of this host."""

from __future__ import annotations

from functools import partial

import torch
from torch import distributed

from peers import all_reduce_options, common
from peers.all_reduce_options import AllReduce


def work(options: AllReduce, port: int, rank: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.ranks
    )
    values = torch.zeros(options.num_values)
    times = all_reduce_options.time_calls(
        lambda: distributed.all_reduce(values), distributed.barrier, options.iterations
    )
    if rank == 0:
        all_reduce_options.answer(times)


def main() -> None:
    options = all_reduce_options.read(__doc__)
    (port,) = common.free_ports(1)
    lead, *others = (partial(work, options, port, rank) for rank in range(options.ranks))
    common.carry_out(lead, others, preload="torch")


if __name__ == "__main__":
    main()
