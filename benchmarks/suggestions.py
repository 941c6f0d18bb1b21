"""Whether a suggestion brings what it promises: some of each kind followed.

python benchmarks/suggestions.py [--repetitions 3] [--only ring] [--shared]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from made_rates import made_rates
from ratios import alternate

import paceline
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.testing.workloads import Burdened
from paceline.verdict import suggestions_for
from paceline.verdict.thresholds import THRESHOLDS
from paceline.workloads.synthetic import Synthetic

WITHIN = 0.2
SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    """A run that something holds up, and the same with a suggestion followed."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    """What is other than before."""
    suggestion: str = ""
    """As results name it, where the case has another name."""
    advice: str = ""
    """What has to be in its words, where the same name may stand for several things to do."""

    @property
    def followed(self) -> str:
        return self.suggestion or self.name


def spec_of(table: dict[str, Any]) -> RunSpec:
    cluster = {"name": "emulated", "link": "50mbit", **table.get("cluster", {})}
    common: dict[str, Any] = {"seconds": SECONDS, "record": {"tensorboard": False}}
    if "device" not in table:  # replayed compute evaluates nothing
        common["eval_samples"] = 8
    return RunSpec.from_table({**common, **table, "cluster": cluster})


def result_of(table: dict[str, Any]) -> Result:
    with tempfile.TemporaryDirectory() as out:
        return paceline.run(spec_of(table), out=out)


def dense(num_workers: int, num_bytes: int, strategy: str, **fields: Any) -> dict[str, Any]:
    workload = Burdened(bytes=num_bytes, compute_ms=3.0)
    return {
        "workload": workload,
        "num_workers": num_workers,
        "strategy": {"name": strategy},
        **fields,
    }


SPARSE = {
    "workload": Synthetic(features=100_000, nonzeros=39, rows=20_000),
    "num_workers": 3,
    "batch": 200,
    "strategy": {"name": "ps-sync", "sparse": False},
}
# A model of one chunk: with several, a server beside every worker is suggested instead. The link is
# so slow that it is full nevertheless.
WHOLE = dense(4, 250_000, "ps-sync", cluster={"link": "12.5mbit"})
CASES = (
    Case(
        "servers",
        WHOLE,
        {"strategy": {"name": "ps-sync", "servers": 2}},
        advice="servers=2",
    ),
    Case("sparse", SPARSE, {"strategy": {"name": "ps-sync", "sparse": True}}),
    Case("batch", dense(3, 400_000, "ps-sync", batch=8), {"batch": 16}),
    Case("link", dense(3, 1_000_000, "ring"), {"cluster": {"link": "100mbit"}}),
    Case("ring", WHOLE, {"strategy": {"name": "ring"}}),
)
SPREAD_BYTES = 8_000_000


def spread(name: str, device: str, **strategy: Any) -> Case:
    """One server's link is full; with a server beside every worker what is left hides, or not.

    Replayed, since layers then finish one after the other, as back-propagation has them.
    """
    before = {
        "workload": Synthetic(bytes=SPREAD_BYTES),
        "device": device,
        "dilation": 2.0,
        "num_workers": 4,
        "batch": 8,
        "cluster": {"link": "300mbit"},
        "strategy": {"name": "ps-sync", **strategy},
    }
    after = {"strategy": {"name": "ps-sync", "servers": "auto", **strategy}}
    return Case(name, before, after, suggestion="servers", advice="servers=auto")


def cases(folder: Path) -> list[Case]:
    """All of them; `folder` keeps what they need."""
    device = made_rates(folder, SPREAD_BYTES, forward_s=0.08, backward_s=0.16)
    return [
        *CASES,
        spread("spread", device),
        spread("spread, not overlapped", device, overlap=False),
    ]


def promised_by(result: Result, case: Case, *, is_shared: bool) -> list[float]:
    """Give the gain that a run's suggestion promises, if it makes it."""
    limits = replace(THRESHOLDS, host_full=2.0) if is_shared else THRESHOLDS
    judged = replace(result, host_limited=False) if is_shared else result
    return [
        each.gain
        for each in suggestions_for(judged, limits)
        if each.name == case.followed and case.advice in each.advice
    ]


def follow(case: Case, repetitions: int, *, is_shared: bool) -> bool:
    """Run both in turn; returns whether the gain came as it was promised."""
    promised: list[float] = []

    def before() -> float:
        result = result_of(case.before)
        promised.extend(promised_by(result, case, is_shared=is_shared))
        return _rate(result)

    def after() -> float:
        return _rate(result_of({**case.before, **case.after}))

    gain = alternate(case.name, after, before, repetitions)
    if not promised:
        print(f"{case.name}: was not suggested: MISSED", flush=True)
        return False
    expected, got = statistics.median(promised), gain.median
    is_met = abs(expected / got - 1) <= WITHIN
    each = f"{min(gain.each):.2f} to {max(gain.each):.2f}"
    print(
        f"{case.name}: {expected:.2f} times the samples per second promised, {got:.2f} got "
        f"({each}, n={repetitions}); within {WITHIN:.0%}: {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def _rate(result: Result) -> float:
    assert result.samples_per_s is not None
    return result.samples_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="judge as if the machine were not full: others use it, and no case fills it",
    )
    arguments = parser.parse_args()
    count, shared = arguments.repetitions, arguments.shared
    with tempfile.TemporaryDirectory() as folder:
        wanted = [case for case in cases(Path(folder)) if arguments.only in case.name]
        num_met = sum([follow(case, count, is_shared=shared) for case in wanted])
    print(f"{num_met} of {len(wanted)} met")


if __name__ == "__main__":
    main()
