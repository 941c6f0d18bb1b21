"""What layout and oneDNN make of a convolutional network: ResNet50 and VGG16, batch 32.

    python benchmarks/cnn.py [--sizes 32 224] [--repetitions 5] [NAME ...]

Forward and backward of a workload's own model and loss, as `paceline run` computes them, on made-up
pictures: channels last over channels first, both with oneDNN, and channels last with oneDNN over
torch's own kernels without. Alternating, one thread, in processor time, so that somebody else's
work on the machine counts little. A ratio above 1 says that the first is faster. At 224 pixels it
takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from ratios import Ratio, alternate

from paceline.compute.real import Real
from paceline.training.replica import Replica
from paceline.workloads import WORKLOADS

BATCH = 32


def stepper(name: str, size: int, *, channels_last: bool, onednn: bool) -> Callable[[], float]:
    """Give a function that makes one step and returns pictures a second of processor time."""
    workload = WORKLOADS.build({"name": name, "image_size": size, "channels_last": channels_last})
    torch.manual_seed(0)
    replica = Replica(workload.model())
    compute = Real(workload.loss, replica, None)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    pictures = torch.randn(BATCH, 3, size, size).contiguous(memory_format=layout)
    classes = torch.arange(BATCH) % 10

    def step() -> float:
        torch.backends.mkldnn.enabled = onednn  # type: ignore[assignment]
        began_s = time.process_time()
        compute.gradients((pictures, classes))
        return BATCH / (time.process_time() - began_s)

    step()  # memory is laid out and kernels are made in the first
    return step


def line(ratio: Ratio) -> str:
    low, high = min(ratio.each), max(ratio.each)
    return f"{ratio.title}: {ratio.median:.2f} ({low:.2f} to {high:.2f}, n={len(ratio.each)})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[32])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("names", nargs="*", default=["resnet50-cifar10", "vgg16-cifar10"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.names:
        for size in given.sizes:
            compare(f"{name}, {size} x {size}", name, size, given.repetitions)


def compare(title: str, name: str, size: int, repetitions: int) -> None:
    ours = stepper(name, size, channels_last=True, onednn=True)
    for words, layout, onednn in (
        ("channels last over channels first", False, True),
        ("both over torch's own kernels", False, False),
    ):
        theirs = stepper(name, size, channels_last=layout, onednn=onednn)
        print(line(alternate(f"{title}: {words}", ours, theirs, repetitions)), flush=True)


if __name__ == "__main__":
    main()
