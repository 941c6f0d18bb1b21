"""What `ps-vs-ring` should measure by arithmetic: a K80's compute, a link, and the closed form."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources
from typing import Final, final

from paceline.arithmetic.all_reduce import ring_step_s
from paceline.arithmetic.closed_form import servers_step_s
from paceline.arithmetic.exchange import CHUNK_BYTES, Servers
from paceline.arithmetic.network import LinkRate
from paceline.arithmetic.step import ComputeStep
from paceline.spec import RunSpec
from paceline.store.stored import StoredRun

MIB: Final = 2**20
DEVICE: Final = "replay:k80"
LAYERS: Final = "ps-vs-ring-layers.csv"
"""Beside this file, made by `tools/embed_layers.py`."""
_FLOAT_BYTES: Final = 4


@final
@dataclass(frozen=True)
class ShiLayer:
    """What of a network's layer decides how long a step takes; multiply-adds are of one row."""

    name: str
    num_parameters: int
    multiply_adds: int


@final
@dataclass(frozen=True)
class ShiNetwork:
    """A network as Shi has it."""

    label: str
    size_mib: int
    """Table 3.1 calls it MB."""


NETWORKS: Final = {
    "alexnet-cifar10": ShiNetwork("AlexNet", 233),
    "vgg16-cifar10": ShiNetwork("VGG16", 528),
    "vgg19-cifar10": ShiNetwork("VGG19", 548),
    "resnet50-cifar10": ShiNetwork("ResNet50", 98),
    "resnet152-cifar10": ShiNetwork("ResNet152", 230),
}


def link_of(run: StoredRun) -> LinkRate | None:
    """Give the link of the run's nodes; None where they have none."""
    rate = run.spec.get("cluster", {}).get("link")
    return LinkRate(bits_per_s=float(rate)) if rate else None


def ideal_step_s(run: StoredRun) -> float | None:
    """Say how long a step should take; None where nothing is known of its network or link.

    A ring's exchange hides behind back-propagation, but for the gradients of the first layers,
    which are finished last; so does a server's, where it overlaps, but for its last chunks.
    """
    link = link_of(run)
    if link is None or run.result.workload not in NETWORKS:
        return None
    step = step_of(run.result.workload, run.result.batch_size)
    if run.result.servers:
        workers = run.result.num_workers
        return servers_step_s(step, link, workers, _exchange_of(run), per_node=1)
    return ring_step_s(step, link, run.result.num_workers)


def _exchange_of(run: StoredRun) -> Servers:
    """Say how a run's servers exchanged, from what its spec says."""
    strategy = run.spec.get("strategy", {})
    in_step = bool(run.result.in_step)
    return Servers(
        num_servers=len(run.result.servers),
        apart=strategy.get("placement", "separate") == "separate",
        chunk_bytes=int(strategy.get("chunk_bytes") or CHUNK_BYTES),
        # A spec is kept with all of its fields: versions that had no `overlap` did not overlap.
        overlap=bool(strategy.get("overlap", False)),
        averaged=in_step,
        whole=not in_step and strategy.get("refuse", "whole") == "whole",
    )


def ideal_speed_up(run: StoredRun) -> float | None:
    """Say how many times one worker alone the run should be."""
    step_s = ideal_step_s(run)
    if step_s is None:
        return None
    alone_s = step_of(run.result.workload, run.result.batch_size).compute_s
    return run.result.num_workers * alone_s / step_s


def compute_over_exchange(run: StoredRun) -> float | None:
    """Compare how long a worker of a ring computes with how long its link is busy, of a step."""
    link, count = link_of(run), run.result.num_workers
    if link is None or run.result.workload not in NETWORKS or count < 2:
        return None
    step = step_of(run.result.workload, run.result.batch_size)
    return step.compute_s / link.seconds(2 * (count - 1) / count * step.num_bytes)


@functools.cache
def step_of(workload: str, batch: int) -> ComputeStep:
    """Take a network's step apart: when which gradients are finished, without any exchange."""
    rates = RunSpec.from_table({"workload": workload, "device": DEVICE, "batch": batch}).rates()
    layers = layers_of(workload)
    times = rates.layer_times([(each.name, each.multiply_adds) for each in layers], batch)
    return ComputeStep.of(
        [
            (time.forward_s, time.backward_s, _FLOAT_BYTES * layer.num_parameters)
            for time, layer in zip(times, layers, strict=True)
        ]
    )


def layers_of(workload: str) -> list[ShiLayer]:
    """Give a network's layers as they were written down: to take it apart would need torch."""
    text = resources.files("paceline.studies").joinpath(LAYERS).read_text(encoding="utf-8")
    return [
        ShiLayer(row["layer"], int(row["num_parameters"]), int(row["multiply_adds"]))
        for row in csv.DictReader(text.splitlines())
        if row["workload"] == workload
    ]
