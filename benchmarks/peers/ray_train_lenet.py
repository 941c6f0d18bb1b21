"""The training of `torchrun_lenet.py` under Ray Train, which starts all workers again after a loss.

    PYTHONPATH=benchmarks python benchmarks/peers/ray_train_lenet.py --made steps.txt
        --data data.pt --batch 64 --lr 0.05

A checkpoint per epoch is reported as Ray Train wants it; after a failure it hands out the newest.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig

WORKERS = 2
_FILE = "state.pt"


def main() -> None:
    from peers import torchrun_lenet

    parser = argparse.ArgumentParser(description=__doc__)
    torchrun_lenet.add_options(parser)
    options = parser.parse_args()
    ray.init(num_cpus=WORKERS, include_dashboard=False, _node_ip_address="127.0.0.1")
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config=vars(options),
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=WORKERS, use_gpu=False),
        run_config=RunConfig(
            storage_path=str(options.made.parent / "kept"),
            failure_config=FailureConfig(max_failures=3),
        ),
    )
    trainer.fit()


def train(config: dict[str, Any]) -> None:
    """Be one worker; Ray has made the process group."""
    from peers import torchrun_lenet

    checkpoint, kept = ray.train.get_checkpoint(), None
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            kept = torch.load(Path(folder, _FILE), weights_only=True)
    torchrun_lenet.train(**config, kept=kept, keep=keep)


def keep(state: dict[str, Any]) -> None:
    """Report a checkpoint: all ranks have to, and the first one has something to keep."""
    if ray.train.get_context().get_world_rank() != 0:
        ray.train.report({})
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder, _FILE))
        ray.train.report({}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    main()
