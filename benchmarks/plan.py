"""How far plans are off: predictions held against emulated runs that no constant was fitted on.

    python benchmarks/plan.py build/plan.jsonl [--situations 36] [--first 0] [--repeat 2]
        [--seconds 3] [--write]
    python benchmarks/plan.py build/plan.jsonl --only-read [--write]
    python benchmarks/plan.py build/plan-from-runs.jsonl --from-runs

A situation is a model, a number of nodes, a link, a latency, and perhaps a slower link of one
node, drawn once with a fixed seed. In each, `ring`, `ps-sync` with one server and with one beside
every worker, and `ps-async` are predicted and then run, replayed and slowed as far as it takes for
this host to carry the traffic. Links are taken as the run measured them before it began, and beside
that as they were asked for. Every case is run `--repeat` times, one after the other; the median
counts. Left out and counted: cases that the host could not keep up with, that varied by more than
5 %, and that this kernel cannot emulate. Results are appended to the file as they come, and what is
in it is not run again.

`--write` writes the distribution of errors into the package, to be printed under every plan.
`--from-runs` calibrates on runs of 1 and 2 nodes, as `paceline plan --from` does, and predicts 8.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

import paceline
from paceline.arithmetic.costs import Costs
from paceline.clusters.zygote import Zygote
from paceline.errors import PacelineError, SpecError
from paceline.planning import checked
from paceline.planning.asking import Asked, asked, basis_of
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.emulation import (
    BUDGET_BITS_PER_S,
    as_measured,
    dilation_for,
    emulated_spec,
    measured_steps_per_s,
    predicted_steps_per_s,
)
from paceline.planning.from_run import basis_of_run
from paceline.planning.handling import handling_costs
from paceline.planning.plan import Basis, network_of
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

SEED = 20261118
MOST_SPREAD = 0.05
LEAST_STEPS, MOST_STEPS = 8, 40
# A run that would take longer than this is not worth its place in the grid.
MOST_RUN_S = 15.0
BEST_WITHIN = 0.03
WANTED_MEDIAN, WANTED_NINE, WANTED_BEST = 0.05, 0.10, 0.95
WANTED_FROM_RUNS = 0.07
# Bytes, layers and milliseconds of computing; the K80's network is a real one.
MODELS = {
    "small": ("2MB", 4, 12.0),
    "even": ("8MB", 8, 60.0),
    "deep": ("8MB", 24, 200.0),
    "wide": ("32MB", 3, 80.0),
    "large": ("60MB", 16, 400.0),
}
NODES = (2, 3, 4, 6, 8, 16)
LINKS = ("100mbit", "300mbit", "1gbit", "3gbit", "10gbit")
LATENCIES = ("0", "0", "0", "1ms", "5ms")
SLOWER = (1, 1, 1, 3)
LABELS = ("ring", "ps-sync, 1 server", "ps-sync, a server beside each", "ps-async, 1 server")
BATCH = 8
# How much less than usual this host is asked to carry: more than 1 on one that is busy.
SLOWED = [1.0]


@dataclass(frozen=True)
class Situation:
    """What strategies are compared in."""

    model: str
    nodes: int
    link: str
    latency: str
    slower_link: int
    """By how much the last node's link is slower."""

    @property
    def key(self) -> str:
        return f"{self.model} {self.nodes} x {self.link} {self.latency} /{self.slower_link}"


def drawn(count: int) -> list[Situation]:
    """Draw situations, the same ones each time; as many of each number of nodes."""
    source = random.Random(SEED)
    found: dict[str, Situation] = {}
    while len(found) < count:
        nodes = NODES[len(found) % len(NODES)]
        each = Situation(
            model=source.choice(list(MODELS)),
            nodes=nodes,
            link=source.choice(LINKS),
            latency=source.choice(LATENCIES),
            slower_link=source.choice(SLOWER),
        )
        if is_quick(each):
            found.setdefault(each.key, each)
    return list(found.values())


def asked_of(situation: Situation, device: str, **more: Any) -> Asked:
    size, layers, _ = MODELS[situation.model]
    table: dict[str, Any] = {
        "workload": {"name": "synthetic", "bytes": size, "layers": layers},
        "device": device,
        "batch": BATCH,
        "machines": [situation.nodes],
        "link": situation.link,
        "latency": situation.latency,
        "strategies": ["ring", "ps-sync", "ps-async"],
        **more,
    }
    made = asked(table)
    if situation.slower_link > 1:
        slow = made.scenario.link / situation.slower_link
        table["links"] = {f"node{situation.nodes - 1}": slow}
        made = asked(table)
    return made


@cache
def device_of(model: str) -> str:
    """Write the rates of a made-up device; the folder stays as long as this process does."""
    size, layers, compute_ms = MODELS[model]
    spec = paceline.RunSpec.from_table({"workload": {"name": "synthetic", "bytes": size}})
    fields = {"bytes": spec.workload.values()["bytes"], "layers": layers}
    rates = {
        "batch": BATCH,
        "rows_per_s": BATCH / (compute_ms / 1e3),
        "num_rows": 1_000_000,
        "fields": fields,
    }
    path = Path(FOLDER.name) / f"{model}.toml"
    table = {"device": model, "source": "made up", "workloads": {"synthetic": rates}}
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return f"replay:{path}"


FOLDER = tempfile.TemporaryDirectory()


@cache
def costs() -> Costs:
    spec = paceline.RunSpec.from_table({"workload": "synthetic"})
    assert spec.optimizer is not None
    return handling_costs(spec.optimizer)


def cases(situation: Situation) -> Iterator[tuple[Candidate, Asked, Basis]]:
    asked_for = asked_of(situation, device_of(situation.model))
    basis = basis_of(asked_for, None, costs())
    for candidate in candidates(asked_for.scenario, situation.nodes):
        if candidate.label in LABELS:
            yield candidate, asked_for, basis


def predicted(candidate: Candidate, asked_for: Asked, basis: Basis) -> tuple[float, float]:
    """Give worker steps per second, and how much slower time goes."""
    budget = BUDGET_BITS_PER_S / SLOWED[0]
    dilation = round(dilation_for(candidate, asked_for.scenario.link, budget), 2)
    network = network_of(asked_for.scenario)
    per_s = predicted_steps_per_s(candidate, basis.step, network, basis.costs, dilation=dilation)
    return per_s, dilation


def is_quick(situation: Situation) -> bool:
    """Whether every case of a situation is over soon, even on a busy link."""
    for candidate, asked_for, basis in cases(situation):
        per_s, dilation = predicted(candidate, asked_for, basis)
        if LEAST_STEPS * dilation * candidate.num_workers / per_s > MOST_RUN_S:
            return False
    return True


def run_case(
    candidate: Candidate, asked_for: Asked, basis: Basis, seconds: float, zygote: Zygote
) -> dict[str, Any]:
    """Run one case once, beside its prediction."""
    per_s, dilation = predicted(candidate, asked_for, basis)
    steps = round(seconds * per_s / candidate.num_workers / dilation)
    assert asked_for.spec is not None
    spec = emulated_spec(
        asked_for.spec,
        candidate,
        asked_for.scenario,
        device=asked_for.spec.device,
        dilation=dilation,
        worker_steps=max(LEAST_STEPS, min(MOST_STEPS, steps)),
    )
    with tempfile.TemporaryDirectory() as out:
        result = paceline.run(spec, out=out, zygote=zygote)
        measured = measured_steps_per_s(StoredRun.read(RunDir(Path(result.run))))
    network = as_measured(network_of(asked_for.scenario), result)
    on_links = predicted_steps_per_s(candidate, basis.step, network, basis.costs, dilation=dilation)
    return {
        "nominal": per_s,
        "predicted": on_links,
        "measured": measured,
        "dilation": dilation,
        "host_limited": result.host_limited,
    }


def carry_out(path: Path, arguments: argparse.Namespace) -> None:
    known = {(each["key"], each["label"]) for each in read(path)}
    found = drawn(arguments.situations)[arguments.first :]
    situations = [each for each in found if each.nodes <= arguments.most_nodes]
    with Zygote() as zygote, path.open("a", encoding="utf-8") as file:
        for number, situation in enumerate(situations, start=1):
            for candidate, asked_for, basis in cases(situation):
                if (situation.key, candidate.label) in known:
                    continue
                row = one(situation, (candidate, asked_for, basis), arguments, zygote)
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(f"{number:3}/{len(situations)} {line(row)}", flush=True)


def one(
    situation: Situation,
    case: tuple[Candidate, Asked, Basis],
    arguments: argparse.Namespace,
    zygote: Zygote,
) -> dict[str, Any]:
    candidate, asked_for, basis = case
    row: dict[str, Any] = {
        "key": situation.key,
        **asdict(situation),
        "label": candidate.label,
        "num_workers": candidate.num_workers,
    }
    began_s = time.monotonic()
    try:
        tries = [
            run_case(candidate, asked_for, basis, arguments.seconds, zygote)
            for _ in range(arguments.repeat)
        ]
    except SpecError as error:
        return {**row, "refused": str(error)}
    except PacelineError as error:
        return {**row, "failed": str(error)}
    rates = [each["measured"] for each in tries]
    return {
        **row,
        "nominal": tries[0]["nominal"],
        "predicted": statistics.median(each["predicted"] for each in tries),
        "measured": statistics.median(rates),
        "spread": (max(rates) - min(rates)) / statistics.median(rates),
        "dilation": tries[0]["dilation"],
        "host_limited": any(each["host_limited"] for each in tries),
        "took_s": time.monotonic() - began_s,
    }


def error_of(row: dict[str, Any]) -> float:
    return float(row["predicted"] / row["measured"] - 1)


def line(row: dict[str, Any]) -> str:
    start = f"{row['key']:32} {row['label']:30}"
    if "measured" not in row:
        return f"{start} {row.get('refused') or row.get('failed')}"
    flaws = [
        *(["host-limited"] if row["host_limited"] else []),
        *([f"spread {100 * row['spread']:.0f} %"] if row["spread"] > MOST_SPREAD else []),
    ]
    return (
        f"{start} {row['measured']:9.2f} steps/s, predicted {row['predicted']:9.2f} "
        f"({100 * error_of(row):+6.1f} %; {row['dilation']:g}x, {row['took_s']:.0f} s) "
        f"{', '.join(flaws)}"
    )


def read(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


def is_counted(row: dict[str, Any]) -> bool:
    return "measured" in row and not row["host_limited"] and row["spread"] <= MOST_SPREAD


def best_named(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Say in how many situations the one predicted best was best, or nearly, and of how many."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["key"], []).append(row)
    # What a plan names follows from nominal links: a user has no others.
    choices = [group for group in groups.values() if len(group) > 1]
    right = 0
    for group in choices:
        named = max(group, key=lambda row: row["nominal"])
        best = max(group, key=lambda row: row["measured"])
        right += named["measured"] >= (1 - BEST_WITHIN) * best["measured"]
    return right, len(choices)


def summary(rows: list[dict[str, Any]]) -> checked.Checked:
    counted = [row for row in rows if is_counted(row)]
    errors = sorted(abs(error_of(row)) for row in counted)
    nominal = [abs(row["nominal"] / row["measured"] - 1) for row in counted]
    right, choices = best_named(counted)
    return checked.Checked(
        cases=len(errors),
        left_out=len(rows) - len(errors),
        median_error=statistics.median(errors) if errors else 0.0,
        nine_in_ten=errors[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else 0.0,
        worst_error=errors[-1] if errors else 0.0,
        nominal_median_error=statistics.median(nominal) if nominal else 0.0,
        choices=choices,
        choices_right=right,
        most_nodes=max((row["nodes"] for row in counted), default=0),
        made_on=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    )


def told(rows: list[dict[str, Any]]) -> bool:
    counted = [row for row in rows if is_counted(row)]
    if not counted:
        print(f"no case counted of {len(rows)}")
        return False
    for by in ("label", "model", "nodes", "link", "latency", "slower_link"):
        for value in sorted({row[by] for row in counted}, key=str):
            group = [error_of(row) for row in counted if row[by] == value]
            worst = max(group, key=abs)
            print(
                f"{by:12} {value!s:30} {len(group):3} cases: median "
                f"{100 * statistics.median(group):+6.1f} %, of sizes "
                f"{100 * statistics.median(map(abs, group)):5.1f} %, worst {100 * worst:+6.1f} %"
            )
    for row in sorted(counted, key=lambda row: -abs(error_of(row)))[:8]:
        print("worst: " + line(row))
    got = summary(rows)
    limited = sum(bool(row.get("host_limited")) for row in rows)
    refused = sum("refused" in row for row in rows)
    print(f"{got.sentence} (host-limited {limited}, not possible here {refused})")
    share = got.choices_right / got.choices if got.choices else 0.0
    met = (
        got.median_error <= WANTED_MEDIAN
        and got.nine_in_ten <= WANTED_NINE
        and share >= WANTED_BEST
        and got.cases >= 100
    )
    print(
        f"wanted: 100 cases, median {WANTED_MEDIAN:.0%}, nine in ten {WANTED_NINE:.0%}, best "
        f"{WANTED_BEST:.0%} (got {share:.0%}): {'met' if met else 'MISSED'}"
    )
    return met


def from_runs(path: Path, arguments: argparse.Namespace) -> bool:
    """Predict 8 nodes from what runs of 1 and 2 nodes measured."""
    errors = []
    with Zygote() as zygote, path.open("a", encoding="utf-8") as file:
        for model in MODELS:
            for label in ("ring", "ps-sync, 1 server"):
                row = from_small(model, label, arguments, zygote)
                file.write(json.dumps(row) + "\n")
                print(f"from 1 and 2 nodes: {line(row)}", flush=True)
                if is_counted(row):
                    errors.append(abs(error_of(row)))
    if not errors:
        print("no case counted")
        return False
    got = statistics.median(errors)
    met = got <= WANTED_FROM_RUNS
    print(
        f"median {got:.1%} of {len(errors)}, wanted {WANTED_FROM_RUNS:.0%}: "
        f"{'met' if met else 'MISSED'}"
    )
    return met


def from_small(
    model: str, label: str, arguments: argparse.Namespace, zygote: Zygote
) -> dict[str, Any]:
    large = Situation(model, 8, "1gbit", "0", 1)
    measured = []
    with tempfile.TemporaryDirectory() as out:
        for nodes in (1, 2):
            small = Situation(model, nodes, "1gbit", "0", 1)
            wanted = label if nodes > 1 else "single"
            for candidate, asked_for, basis in every(small):
                if candidate.label != wanted:
                    continue
                per_s, dilation = predicted(candidate, asked_for, basis)
                assert asked_for.spec is not None
                steps = round(arguments.seconds * per_s / candidate.num_workers / dilation)
                spec = emulated_spec(
                    asked_for.spec,
                    candidate,
                    asked_for.scenario,
                    device=asked_for.spec.device,
                    dilation=dilation,
                    worker_steps=max(LEAST_STEPS, min(MOST_STEPS, steps)),
                )
                result = paceline.run(spec, out=out, zygote=zygote)
                measured.append(StoredRun.read(RunDir(Path(result.run))))
        bases = [basis_of_run(run, None, costs()) for run in measured]
    slowest = max(bases, key=lambda basis: basis.step.compute_s)
    for candidate, asked_for, _ in every(large):
        if candidate.label == label:
            return one(large, (candidate, asked_for, slowest), arguments, zygote)
    raise AssertionError(label)


def every(situation: Situation) -> Iterator[tuple[Candidate, Asked, Basis]]:
    asked_for = asked_of(situation, device_of(situation.model))
    basis = basis_of(asked_for, None, costs())
    for candidate in candidates(asked_for.scenario, situation.nodes):
        yield candidate, asked_for, basis


def write(rows: list[dict[str, Any]]) -> None:
    path = Path(checked.__file__).with_name(checked.FILE)
    table = dict(summary(rows).values())
    text = "# Written by `make bench-plan`: how far predictions were off. Not edited by hand.\n"
    path.write_text(text + tomli_w.dumps(table), encoding="utf-8")
    print(f"written to {path.name}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--situations", type=int, default=36)
    parser.add_argument("--first", type=int, default=0, help="leave out that many situations")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="real seconds per run")
    parser.add_argument("--most-nodes", type=int, default=16)
    parser.add_argument("--slowed", type=float, default=1.0, help="for a host that is busy")
    parser.add_argument("--only-read", action="store_true", help="run nothing")
    parser.add_argument("--from-runs", action="store_true")
    parser.add_argument("--write", action="store_true", help="ship the result with the package")
    arguments = parser.parse_args()
    SLOWED[0] = arguments.slowed
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    if arguments.from_runs:
        return 0 if from_runs(arguments.results, arguments) else 1
    if not arguments.only_read:
        carry_out(arguments.results, arguments)
    rows = read(arguments.results)
    met = told(rows)
    if arguments.write:
        write(rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
