"""Logistic regression on a parameter server made of torch's RPC, asynchronous.

A push and the pull that follows are one call, one flat vector each way. The server applies each
gradient when it arrives, and counts.
"""

from __future__ import annotations

import threading
from functools import partial

import torch
from torch.distributed import rpc

from peers import common
from peers.torch_logistic import NUM_VALUES, Logistic

# A call finds the server's state by the name of its module.
_parameters = torch.zeros(NUM_VALUES)
_lock = threading.Lock()
_num_updates = [0]


def push_pull(gradients: torch.Tensor) -> torch.Tensor:
    """Apply a gradient and give the newest parameters; runs on the server."""
    with _lock:
        _parameters.sub_(gradients, alpha=common.LR)
        _num_updates[0] += 1
        # What is returned is sent later, when the next push may already be changing it.
        return _parameters.clone()


def join(name: str, rank: int, num_workers: int, port: int) -> None:
    torch.set_num_threads(1)
    backend = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=num_workers, init_method=f"tcp://127.0.0.1:{port}"
    )
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        name, rank=rank, world_size=num_workers + 1, rpc_backend_options=backend
    )


def serve(options: common.Options, port: int) -> None:
    join("server", 0, options.workers, port)
    rate = common.growth_of(lambda: _num_updates[0], options)
    common.answer(rate, "TensorPipe as it chooses, push and pull in one rpc_sync")


def work(options: common.Options, port: int, rank: int) -> None:
    join(f"worker{rank}", 1 + rank, options.workers, port)
    logistic = Logistic(options.data, rank)
    while True:
        logistic.compute()
        logistic.parameters.copy_(rpc.rpc_sync("server", push_pull, args=(logistic.gradients,)))


def main() -> None:
    options = common.options(__doc__)
    (port,) = common.free_ports(1)
    workers = [partial(work, options, port, rank) for rank in range(options.workers)]
    common.carry_out(partial(serve, options, port), workers, preload="torch")


if __name__ == "__main__":
    main()
