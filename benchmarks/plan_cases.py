"""What plans are held against: situations of plan-grid.csv, and the ways to train in each.

A situation is a model, a number of nodes, a link, a latency, and perhaps a slower link of the last
node, steps that vary, or a slower last node. They were drawn once and stand in a file, so that they
stay what they are: of every number of nodes, link and latency as many as fit, and of each the
models whose runs are short. Nothing in `paceline.arithmetic` is fitted on them.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import tomli_w

import paceline
from paceline.arithmetic.costs import NO_COSTS
from paceline.planning.asking import AskedPlan, asked, basis_of
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.plan import Basis

GRID = Path(__file__).with_name("plan-grid.csv")
# Bytes, layers and milliseconds of computing.
MODELS = {
    "small": ("1MB", 4, 10.0),
    "even": ("4MB", 8, 30.0),
    "deep": ("4MB", 24, 80.0),
    "wide": ("12MB", 3, 40.0),
    "large": ("24MB", 16, 160.0),
}
LABELS = ("ring", "ps-sync, 1 server", "ps-sync, a server beside each", "ps-async, 1 server")
BATCH = 8
NUM_FACTORS = 20
DEVICES = Path(__file__).parents[1] / "build" / "plan-devices"
"""Runs that are kept name their device's file."""


@dataclass(frozen=True)
class Situation:
    """What strategies are compared in."""

    model: str
    nodes: int
    link: str
    latency: str
    slower_link: int = 1
    """By how much the last node's link is slower."""
    spread: float = 0.0
    """How much steps vary: the standard deviation of their logarithms."""
    slower_node: float = 1.0
    """How many times as long the last node computes."""

    @property
    def key(self) -> str:
        varied = f" ~{self.spread:g}" if self.spread else ""
        slower = f" x{self.slower_node:g}" if self.slower_node > 1 else ""
        link = f"{self.link} {self.latency} /{self.slower_link}"
        return f"{self.model} {self.nodes} x {link}{varied}{slower}"

    @property
    def factors(self) -> list[float]:
        """Give steps over the typical one, at equal chances."""
        chances = [(each + 0.5) / NUM_FACTORS for each in range(NUM_FACTORS)]
        if not self.spread:
            return []
        return [math.exp(self.spread * NormalDist().inv_cdf(each)) for each in chances]

    @property
    def slowness(self) -> list[float]:
        """Of every node, where the last one is slower."""
        return [1.0] * (self.nodes - 1) + [self.slower_node] if self.slower_node > 1 else []


@dataclass(frozen=True)
class Case:
    """One way to train in a situation."""

    situation: Situation
    candidate: Candidate
    asked_for: AskedPlan
    basis: Basis

    @property
    def key(self) -> tuple[str, str]:
        return self.situation.key, self.candidate.label


def grid() -> list[Situation]:
    """Read the situations."""
    with GRID.open(encoding="utf-8", newline="") as file:
        return [
            Situation(
                row["model"],
                int(row["nodes"]),
                row["link"],
                row["latency"],
                int(row["slower_link"]),
                float(row["spread"]),
                float(row["slower_node"]),
            )
            for row in csv.DictReader(file)
        ]


def balanced(situations: Sequence[Situation]) -> list[Situation]:
    """Order situations so that wherever one stops, those before are a sample of all.

    Next is always the one whose model, nodes, link and so on are furthest behind their share.
    """
    left, ordered = list(situations), list[Situation]()
    total = Counter(item for each in situations for item in asdict(each).items())
    taken: Counter[Any] = Counter()
    while left:
        following = min(
            left, key=lambda each: sum(taken[item] / total[item] for item in asdict(each).items())
        )
        left.remove(following)
        ordered.append(following)
        taken.update(asdict(following).items())
    return ordered


def asked_of(situation: Situation, device: str, **more: Any) -> AskedPlan:
    size, layers, _ = MODELS[situation.model]
    last = f"node{situation.nodes - 1}"
    table: dict[str, Any] = {
        "workload": {"name": "synthetic", "bytes": size, "layers": layers},
        "device": device,
        "batch": BATCH,
        "machines": [situation.nodes],
        "link": situation.link,
        "latency": situation.latency,
        "strategies": ["ring", "ps-sync", "ps-async"],
        **({"slower": {last: situation.slower_node}} if situation.slower_node > 1 else {}),
        **more,
    }
    made = asked(table)
    if situation.slower_link > 1:
        slow = made.scenario.link / situation.slower_link
        made = asked({**table, "links": {last: slow}})
    return made


def device_of(situation: Situation) -> str:
    """Write the rates of a made-up device."""
    return _device(situation.model, tuple(situation.factors), tuple(situation.slowness))


@cache
def _device(model: str, factors: tuple[float, ...], slowness: tuple[float, ...]) -> str:
    size, layers, compute_ms = MODELS[model]
    spec = paceline.RunSpec.from_table({"workload": {"name": "synthetic", "bytes": size}})
    rates = {
        "batch": BATCH,
        "rows_per_s": BATCH / (compute_ms / 1e3),
        "num_rows": 1_000_000,
        "fields": {"bytes": spec.workload.values()["bytes"], "layers": layers},
        "step_factors": list(factors),
        "varies": bool(factors),
        "worker_factors": list(slowness),
    }
    varied = hashlib.sha256(repr((factors, slowness)).encode()).hexdigest()[:8]
    path = DEVICES / f"{model}-{varied}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {"device": model, "source": "made up", "workloads": {"synthetic": rates}}
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return f"replay:{path}"


def every(situation: Situation) -> Iterator[Case]:
    """Give every way to train in a situation; what handling costs is not in it yet."""
    asked_for = asked_of(situation, device_of(situation))
    basis = basis_of(asked_for, None, NO_COSTS)
    for candidate in candidates(asked_for.scenario, situation.nodes):
        yield Case(situation, candidate, asked_for, basis)


def cases(situation: Situation) -> Iterator[Case]:
    """Give those that are measured."""
    return (each for each in every(situation) if each.candidate.label in LABELS)
