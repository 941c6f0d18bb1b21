"""Logistic regression on a parameter server that is a Ray actor, asynchronous.

Workers are actors too. A push and the pull that follows are one call of the server's method, one
flat numpy array each way, small enough for Ray to send it with the call.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from peers import common
from peers.torch_logistic import NUM_VALUES, Logistic

if TYPE_CHECKING:
    import numpy.typing as npt

STORE_BYTES = 100_000_000


class Server:
    def __init__(self) -> None:
        self._parameters = np.zeros(NUM_VALUES, np.float32)
        self._num_updates = 0

    def push_pull(self, gradients: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        self._parameters -= np.float32(common.LR) * gradients
        self._num_updates += 1
        return self._parameters

    def num_updates(self) -> int:
        return self._num_updates


class Worker:
    def run(self, folder: Path, rank: int, server: Any) -> None:
        import ray

        torch.set_num_threads(1)
        logistic = Logistic(folder, rank)
        parameters, gradients = logistic.parameters.numpy(), logistic.gradients.numpy()
        while True:
            logistic.compute()
            parameters[:] = ray.get(server.push_pull.remote(gradients))


def main() -> None:
    options = common.options(__doc__)
    # Ray demands a token by default, and would make one in the home folder. This is one for this
    # cluster only; it is read when Ray is imported.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    ray.init(
        num_cpus=options.workers + 1,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=tempfile.gettempdir(),
    )
    server = ray.remote(num_cpus=1)(Server).remote()
    workers = [ray.remote(num_cpus=1)(Worker).remote() for _ in range(options.workers)]
    for rank, worker in enumerate(workers):
        worker.run.remote(options.data, rank, server)
    rate = common.growth_of(lambda: ray.get(server.num_updates.remote()), options)
    ray.shutdown()
    common.answer(rate, "push and pull in one call, arrays sent with the call")


if __name__ == "__main__":
    main()
