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
from pathlib import Path

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
    parser.add_argument("--made", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    (options.made.parent / f"rank{rank}.pid").write_text(str(os.getpid()))
    torch.manual_seed(0)
    data = torch.load(options.data, weights_only=True)
    images, labels = data["images"], data["labels"]
    model = nn.parallel.DistributedDataParallel(lenet())
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    done, epoch = _loaded(options.checkpoint, model, optimizer)
    with options.made.open("a", buffering=1) as log:
        if rank == 0:
            log.write(f"{time.monotonic():.4f} {done}\n")
        while True:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
            parts = order[rank::world].split(options.batch)  # type: ignore[no-untyped-call]
            for rows in parts:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += 1
                if rank == 0:
                    log.write(f"{time.monotonic():.4f} {done}\n")
            epoch += 1
            if rank == 0:
                _save(options.checkpoint, model, optimizer, done, epoch)


def _loaded(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    if not path.exists():
        return 0, 0
    kept = torch.load(path, weights_only=True)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return kept["done"], kept["epoch"]


def _save(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, done: int, epoch: int
) -> None:
    beside = path.with_suffix(".new")
    kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**kept, "done": done, "epoch": epoch}, beside)
    beside.replace(path)


if __name__ == "__main__":
    main()
