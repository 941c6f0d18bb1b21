"""A synchronous step of the dense model in its parts, beside published arithmetic (S8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, final

from paceline.exhibits.values import Column, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts, measures
from paceline.studies.evidence import Evidence
from paceline.studies.measures import known

STEP_PARTS: Final = "dense-step"
SAID_S: Final = 7.121
"""What the untitled report measured of a step."""
LINK_BYTES_PER_S: Final = 350e6
"""What the untitled report's machines moved at most."""
_NEAR: Final = 0.05
"""Seconds that are no further apart follow from each other."""
_SPANS: Final = ("load", "compute", "exchange")


@final
@dataclass(frozen=True, kw_only=True)
class DenseStep:
    """What a step took, and what its exchange should take."""

    num_workers: int
    step_s: float
    spans: Mapping[str, float]
    """Seconds of a worker's step, by what it did."""
    within: Mapping[str, float | None]
    """Seconds of what happens within the exchange, where it is known."""
    moved_bytes: float
    """By each worker in a step, both ways."""

    @classmethod
    def of(cls, run: StoredRun) -> Self:
        """Measure it; raises `Untestable` where spans or traffic were not recorded."""
        steps = max(run.result.worker_steps, 1)
        workers, servers = run.result.workers, run.result.servers
        waits = [each.wait_s for each in workers]
        queues = [each.queue_s for each in workers]
        applied = [each.apply_s for each in servers]
        rounds = max(run.result.global_steps or 1, 1)
        return cls(
            num_workers=run.result.num_workers,
            step_s=known(run.result.train_s, "time") / rounds,
            spans={name: _span_s(run, name) / steps for name in _SPANS},
            within={
                "waiting for slower workers": _mean(waits, steps),
                "waiting in the server's queue": _mean(queues, steps),
                "the server averages and applies": _mean(applied, rounds),
            },
            moved_bytes=known(measures.exchanged_bytes(run), "traffic") / steps,
        )

    @property
    def at_once_s(self) -> float:
        """How long the server's link is busy if it carries both ways at once."""
        return self.num_workers * self.moved_bytes / 2 / LINK_BYTES_PER_S

    @property
    def readings(self) -> dict[str, float]:
        """Seconds of an exchange by each way to read "crosses the network twice"."""
        one_s = self.moved_bytes / LINK_BYTES_PER_S
        all_of_them = f"for {self.num_workers} workers at one server"
        float32 = {
            "for one worker": one_s,
            f"{all_of_them}, in and out at once": self.at_once_s,
            f"{all_of_them}, out after in": 2 * self.at_once_s,
        }
        return float32 | {f"{how}, as float64": 2 * each for how, each in float32.items()}

    @property
    def said_reading(self) -> str | None:
        """The reading from which the published seconds follow; None where there is none."""
        near = (how for how, each in self.readings.items() if abs(each / SAID_S - 1) < _NEAR)
        return next(near, None)


def step_parts(evidence: Evidence) -> Table:
    """The parts of a step as they were measured, beside the arithmetic and what was published."""
    run = evidence.first("dense", strategy="ps-sync")
    step = DenseStep.of(run)
    model = f"{step.moved_bytes / 2e6:,.0f} MB x {step.num_workers} at 350 MB/s"
    rows: list[dict[str, object]] = [{"part": name, "ours": s} for name, s in step.spans.items()]
    rows[-1]["arithmetic"] = step.at_once_s
    rows += [{"part": f"of the exchange: {name}", "ours": s} for name, s in step.within.items()]
    rows.append(
        {
            "part": "a step",
            "ours": step.step_s,
            "arithmetic": step.spans["load"] + step.spans["compute"] + step.at_once_s,
            "said": SAID_S,
        }
    )
    rows += [
        {"part": f"{model}, in and out at once", "arithmetic": step.at_once_s},
        {"part": f"{model}, out after in", "arithmetic": 2 * step.at_once_s},
        {"part": f"{model}, out after in, as float64", "arithmetic": 4 * step.at_once_s},
    ]
    columns = [
        Column(name="part", label="part of a synchronous step"),
        Column(name="ours", label="here", unit="s", form=".3f"),
        Column(name="arithmetic", label="by arithmetic", unit="s", form=".2f"),
        Column(name="said", label="untitled report", unit="s", form=".3f", published=True),
    ]
    note = (
        "Means over workers and steps, `strategy.sparse=false`. By arithmetic the server's link is "
        "what an exchange takes; load and compute are as measured."
    )
    title = "A step of the dense model in its parts (the untitled report; claim S8)"
    return charts.side_by_side(STEP_PARTS, title, rows, columns, note=note, runs=[run])


def _span_s(run: StoredRun, name: str) -> float:
    """Add up what all workers spent on one part of their steps."""
    spans = [getattr(each, f"{name}_s") for each in run.result.workers]
    return sum(known(each, "the parts of a step") for each in spans)


def _mean(values: Sequence[float | None], count: int) -> float | None:
    """Spread seconds over steps; None where some are not known."""
    there = [each for each in values if each is not None]
    return sum(there) / count if there and len(there) == len(values) else None
