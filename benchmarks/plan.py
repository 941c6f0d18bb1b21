"""How far plans are off: predictions held against emulated runs that no constant was fitted on.

    python benchmarks/plan.py build/plan.jsonl [--first 0] [--situations N] [--repeat 2]
        [--seconds 2.5] [--slowed 1] [--write]
    python benchmarks/plan.py build/plan.jsonl --only-read [--write]
    python benchmarks/plan.py build/plan-from-runs.jsonl --from-runs
    python benchmarks/plan.py build/plan.jsonl --estimate

A situation is a model, a number of nodes, a link, a latency, and perhaps a slower link of one
node. They stand in plan-grid.csv: drawn once, of every number of nodes, link and latency as many as
fit, and of each the models whose runs are short. In each, `ring`, `ps-sync` with one server and
with one beside every worker, and `ps-async` are predicted and then run, replayed and slowed as far
as it takes for this host to carry the traffic and to handle it. Links are taken as the run measured
them before it began, and beside that as they were asked for. Every case is run `--repeat` times,
one after the other; the median counts. Left out and counted: cases that the host could not keep up
with, that varied by more than 5 %, that failed, and that this kernel cannot emulate. Results are
appended to the file as they come, and what is in it is not run again, but for what failed.

Computing is replayed, and a replayed step takes the same time on every node: what stragglers cost
is held against runs by their links only.

`--write` writes the distribution of errors into the package, to be printed under every plan.
`--from-runs` takes steps, links and what servers took from runs of 1 and 2 nodes, as
`paceline plan --from` does, and predicts 8. `--estimate` runs nothing, and says how long all takes.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

import paceline
from paceline.arithmetic.costs import Costs
from paceline.clusters.zygote import Zygote
from paceline.errors import PacelineError, SpecError
from paceline.planning import checked
from paceline.planning.asking import AskedPlan, asked, basis_of
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.emulation import (
    BUDGET_BITS_PER_S,
    as_measured,
    dilation_of,
    emulated_spec,
    measured_steps_per_s,
    predicted_steps_per_s,
)
from paceline.planning.from_run import basis_of_run, fields_of
from paceline.planning.handling import handling_costs
from paceline.planning.plan import Basis, network_of
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

GRID = Path(__file__).with_name("plan-grid.csv")
MOST_SPREAD = 0.05
LEAST_STEPS, MOST_STEPS = 6, 40
# About what a run takes to start and to end, beside its steps.
START_S = 2.5
BEST_WITHIN = 0.03
WANTED_MEDIAN, WANTED_NINE, WANTED_BEST = 0.05, 0.10, 0.95
WANTED_FROM_RUNS = 0.07
# Bytes, layers and milliseconds of computing; the K80's network is a real one.
MODELS = {
    "small": ("1MB", 4, 10.0),
    "even": ("4MB", 8, 30.0),
    "deep": ("4MB", 24, 80.0),
    "wide": ("12MB", 3, 40.0),
    "large": ("24MB", 16, 160.0),
}
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


def grid() -> list[Situation]:
    """Read the situations: they stand in a file, so that they stay what they are."""
    with GRID.open(encoding="utf-8", newline="") as file:
        return [
            Situation(
                row["model"],
                int(row["nodes"]),
                row["link"],
                row["latency"],
                int(row["slower_link"]),
            )
            for row in csv.DictReader(file)
        ]


def asked_of(situation: Situation, device: str, **more: Any) -> AskedPlan:
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


def cases(situation: Situation) -> Iterator[tuple[Candidate, AskedPlan, Basis]]:
    asked_for = asked_of(situation, device_of(situation.model))
    basis = basis_of(asked_for, None, costs())
    for candidate in candidates(asked_for.scenario, situation.nodes):
        if candidate.label in LABELS:
            yield candidate, asked_for, basis


def predicted(candidate: Candidate, asked_for: AskedPlan, basis: Basis) -> tuple[float, float]:
    """Give worker steps per second, and how much slower time goes."""
    budget = BUDGET_BITS_PER_S / SLOWED[0]
    dilation = dilation_of(candidate, asked_for.scenario, basis, budget)
    network = network_of(asked_for.scenario)
    per_s = predicted_steps_per_s(candidate, basis.step, network, basis.costs, dilation=dilation)
    return per_s, dilation


def steps_of(per_s: float, num_workers: int, dilation: float, seconds: float) -> int:
    """Say how many steps fill so many real seconds."""
    return max(LEAST_STEPS, min(MOST_STEPS, round(seconds * per_s / num_workers / dilation)))


def run_s(case: tuple[Candidate, AskedPlan, Basis], seconds: float) -> float:
    """Expect how long one run of a case takes, in real seconds."""
    per_s, dilation = predicted(*case)
    workers = case[0].num_workers
    return START_S + steps_of(per_s, workers, dilation, seconds) * dilation * workers / per_s


def run_case(
    candidate: Candidate, asked_for: AskedPlan, basis: Basis, seconds: float, zygote: Zygote
) -> dict[str, Any]:
    """Run one case once, beside its prediction."""
    per_s, dilation = predicted(candidate, asked_for, basis)
    assert asked_for.spec is not None
    spec = emulated_spec(
        asked_for.spec,
        candidate,
        asked_for.scenario,
        device=asked_for.spec.device,
        dilation=dilation,
        worker_steps=steps_of(per_s, candidate.num_workers, dilation, seconds),
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


def wanted(arguments: argparse.Namespace) -> list[tuple[Situation, Candidate, AskedPlan, Basis]]:
    found = grid()[arguments.first :][: arguments.situations]
    return [
        (situation, *case)
        for situation in found
        if situation.nodes <= arguments.most_nodes
        for case in cases(situation)
        if arguments.label in {None, case[0].label}
    ]


def carry_out(path: Path, arguments: argparse.Namespace) -> None:
    known = {(row["key"], row["label"]) for row in read(path) if "failed" not in row}
    left = [each for each in wanted(arguments) if (each[0].key, each[1].label) not in known]
    expected = [arguments.repeat * run_s(each[1:], arguments.seconds) for each in left]
    print(f"{len(left)} cases, about {sum(expected) / 60:.0f} minutes", flush=True)
    if arguments.estimate:
        return
    began_s, over = time.monotonic(), 0.0
    with Zygote() as zygote, path.open("a", encoding="utf-8") as file:
        for number, (situation, candidate, asked_for, basis) in enumerate(left, start=1):
            row = one(situation, (candidate, asked_for, basis), arguments, zygote)
            file.write(json.dumps(row) + "\n")
            file.flush()
            over += expected[number - 1]
            pace = (time.monotonic() - began_s) / over
            minutes = pace * (sum(expected) - over) / 60
            print(f"{number:3}/{len(left)} {line(row)}; {minutes:.0f} min left", flush=True)


def one(
    situation: Situation,
    case: tuple[Candidate, AskedPlan, Basis],
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
        why = f"not possible here: {row['refused']}" if "refused" in row else row["failed"]
        return f"{start} {why if 'refused' in row else f'FAILED: {why}'}"
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
    rows = [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]
    # What was run again after it failed stands there twice: the last one counts.
    return list({(row["key"], row["label"]): row for row in rows}.values())


def is_counted(row: dict[str, Any]) -> bool:
    return "measured" in row and not row["host_limited"] and row["spread"] <= MOST_SPREAD


def best_named(rows: list[dict[str, Any]], *, whole: bool = False) -> tuple[int, int]:
    """Say in how many situations the one predicted best was best, or nearly, and of how many.

    `whole`: only of situations of which every strategy counted.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["key"], []).append(row)
    least = len(LABELS) if whole else 2
    # What a plan names follows from nominal links: a user has no others.
    choices = [group for group in groups.values() if len(group) >= least]
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
    varied = sum("measured" in row and row["spread"] > MOST_SPREAD for row in rows)
    refused, failed = (sum(key in row for row in rows) for key in ("refused", "failed"))
    print(
        f"{got.sentence} (host-limited {limited}, varied {varied}, not possible here {refused}, "
        f"failed {failed})"
    )
    right, choices = best_named(counted, whole=True)
    print(f"best strategy, of situations in which every one counted: {right} of {choices}")
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
            with tempfile.TemporaryDirectory() as out:
                alone = small_run(model, 1, "single", arguments, (zygote, out))
                for label in ("ring", "ps-sync, 1 server"):
                    two = small_run(model, 2, label, arguments, (zygote, out))
                    row = one(*from_small(model, label, alone, two), arguments, zygote)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
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


def small_run(
    model: str,
    nodes: int,
    label: str,
    arguments: argparse.Namespace,
    where: tuple[Zygote, str],
) -> StoredRun:
    """Run a model on 1 or 2 nodes."""
    zygote, out = where
    found = {each[0].label: each for each in every(Situation(model, nodes, "1gbit", "0", 1))}
    candidate, asked_for, basis = found[label]
    per_s, dilation = predicted(candidate, asked_for, basis)
    assert asked_for.spec is not None
    spec = emulated_spec(
        asked_for.spec,
        candidate,
        asked_for.scenario,
        device=asked_for.spec.device,
        dilation=dilation,
        worker_steps=steps_of(per_s, candidate.num_workers, dilation, arguments.seconds),
    )
    result = paceline.run(spec, out=out, zygote=zygote)
    return StoredRun.read(RunDir(Path(result.run)))


def from_small(
    model: str, label: str, alone: StoredRun, two: StoredRun
) -> tuple[Situation, tuple[Candidate, AskedPlan, Basis]]:
    """Take the step from the run of one node; links and what servers took from that of two."""
    large = Situation(model, 8, "1gbit", "0", 1)
    asked_for = asked_of(large, device_of(model), link=fields_of(two)["link"])
    (candidate,) = (
        each for each in candidates(asked_for.scenario, large.nodes) if each.label == label
    )
    found = basis_of_run(two, None, None, costs())
    if two.result.servers:  # as fast as it was while time went slower
        slower = found.costs.scaled(two.result.dilation)
        found = replace(
            found,
            costs=replace(
                costs(),
                add_s_per_byte=slower.add_s_per_byte,
                apply_s_per_byte=slower.apply_s_per_byte,
            ),
        )
    step = basis_of_run(alone, None, None).step
    return large, (candidate, asked_for, replace(found, step=step))


def every(situation: Situation) -> Iterator[tuple[Candidate, AskedPlan, Basis]]:
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
    parser.add_argument("--situations", type=int, help="only so many of them")
    parser.add_argument("--label", choices=LABELS, help="only this strategy")
    parser.add_argument("--estimate", action="store_true", help="say how long it takes")
    parser.add_argument("--first", type=int, default=0, help="leave out that many situations")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.5, help="real seconds per run")
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
    if arguments.estimate:
        return 0
    rows = read(arguments.results)
    met = told(rows)
    if arguments.write:
        write(rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
