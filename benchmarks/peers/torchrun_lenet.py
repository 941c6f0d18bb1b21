"""LeNet on torch's DistributedDataParallel under torchrun, with a checkpoint per epoch.

    torchrun --nproc-per-node 2 --max-restarts 3 benchmarks/peers/torchrun_lenet.py --made steps.txt
        --checkpoint last.pt --data data.pt --batch 64 --lr 0.05

As scripts for torchrun usually do it: rank 0 saves at the end of each epoch, and all load that
after a restart. Rank 0 writes a line per step: when it was done, and which it was; the first says
where it begins.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn


def lenet() -> nn.Module:
    """LeNet-5, layer by layer as `lenet-mnist` has it."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--checkpoint", type=Path, required=True)
    options = parser.parse_args()
    distributed.init_process_group("gloo")
    path = options.checkpoint
    kept = torch.load(path, weights_only=True) if path.exists() else None

    def keep(state: dict[str, Any]) -> None:
        if distributed.get_rank() == 0:
            beside = path.with_suffix(".new")
            torch.save(state, beside)
            beside.replace(path)

    train(
        options.made,
        options.data,
        batch=options.batch,
        lr=options.lr,
        kept=kept,
        keep=keep,
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what a script trains on, and where it writes which steps it has made."""
    parser.add_argument("--made", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)


def train(
    made: Path,
    data: Path,
    *,
    batch: int,
    lr: float,
    kept: dict[str, Any] | None,
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """Train for ever from what was kept; each rank has the state kept at the end of each epoch."""
    torch.set_num_threads(1)
    rank, world = distributed.get_rank(), distributed.get_world_size()
    (made.parent / f"rank{rank}.pid").write_text(str(os.getpid()))
    torch.manual_seed(0)
    rows = torch.load(data, weights_only=True)
    images, labels = rows["images"], rows["labels"]
    model = nn.parallel.DistributedDataParallel(lenet())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    done, epoch = _loaded(kept, model, optimizer)
    with made.open("a", buffering=1) as log:
        if rank == 0:
            log.write(f"{time.monotonic():.4f} {done}\n")
        while True:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
            parts = order[rank::world].split(batch)  # type: ignore[no-untyped-call]
            for part in parts:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[part]), labels[part])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += 1
                if rank == 0:
                    log.write(f"{time.monotonic():.4f} {done}\n")
            epoch += 1
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            keep({**state, "done": done, "epoch": epoch})


def _loaded(
    kept: dict[str, Any] | None, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, int]:
    if kept is None:
        return 0, 0
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return kept["done"], kept["epoch"]


if __name__ == "__main__":
    main()
