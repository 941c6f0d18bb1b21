"""Logistic regression on torch's DistributedDataParallel over Gloo: synchronous, all-reduce."""

from __future__ import annotations

from functools import partial

import torch
from torch import distributed, nn

from peers import common
from peers.torch_logistic import Rows


def work(options: common.Options, port: int, rank: int) -> None:
    """Step for ever; rank 0 says how fast, and with it all end."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.workers
    )
    rows = Rows(options.data, rank)
    model = nn.parallel.DistributedDataParallel(
        nn.Linear(common.NUM_PIXELS, common.NUM_CLASSES),
        gradient_as_bucket_view=True,
        static_graph=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=common.LR)

    def step() -> None:
        images, labels = rows.batch()
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    while rank:
        step()
    common.answer(common.rate_of(step, options), "gradients as bucket views, static graph")


def main() -> None:
    options = common.options(__doc__)
    (port,) = common.free_ports(1)
    lead, *others = (partial(work, options, port, rank) for rank in range(options.workers))
    common.carry_out(lead, others, preload="torch")


if __name__ == "__main__":
    main()
