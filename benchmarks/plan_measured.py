"""Measured cases: each run as it comes, on disk, apart from anything that is predicted.

What was predicted is computed anew whenever a row is read, from the arithmetic of that moment: of a
row only what was measured is kept, and what the host took for handling messages.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from plan_cases import Case, Situation, cases

import paceline
from paceline.arithmetic.costs import Costs
from paceline.arithmetic.network import Network
from paceline.clusters.zygote import Zygote
from paceline.errors import Interrupted, PacelineError, SpecError
from paceline.planning.emulation import (
    BUDGET_BITS_PER_S,
    carried_share,
    dilation_of,
    emulated_spec,
    measured_steps_per_s,
    predicted_steps_per_s,
    with_share,
)
from paceline.planning.handling import handling_costs
from paceline.planning.plan import network_of
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

MOST_SPREAD = 0.05
LEAST_STEPS, MOST_STEPS = 12, 40
# All factors of steps that vary come once in 20; some steps at both ends are left out.
LEAST_VARIED_STEPS = 25
# About what a run takes to start and to end, beside its steps; of each machine the link is measured
# both ways before, one after the other, and again where that was disturbed.
START_S, START_S_PER_MACHINE = 1.5, 0.4
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long a case is run."""

    seconds: float = 2.5
    """Real seconds of each run."""
    repeat: int = 2
    slowed: float = 1.0
    """How much less than usual the host is asked to carry: more than 1 on one that is busy."""


@cache
def costs() -> Costs:
    """What this host takes to handle messages."""
    spec = paceline.RunSpec.from_table({"workload": "synthetic"})
    assert spec.optimizer is not None
    return handling_costs(spec.optimizer)


def predicted(case: Case, network: Network, handling: Costs, dilation: float) -> float:
    """Give worker steps per second."""
    return predicted_steps_per_s(
        case.candidate,
        case.basis.step,
        network,
        handling,
        dilation=dilation,
        slowness=case.asked_for.scenario.slowness(case.candidate.num_nodes),
    )


def nominal(case: Case, handling: Costs, slowed: float) -> tuple[float, float]:
    """Give worker steps per second with links as asked for, and how much slower time goes."""
    scenario, basis = case.asked_for.scenario, replace(case.basis, costs=handling)
    dilation = dilation_of(case.candidate, scenario, basis, BUDGET_BITS_PER_S / slowed)
    return predicted(case, network_of(scenario), handling, dilation), dilation


def steps_of(case: Case, per_s: float, dilation: float, seconds: float) -> int:
    """Say how many steps fill so many real seconds."""
    least = LEAST_VARIED_STEPS if case.situation.spread else LEAST_STEPS
    wanted = round(seconds * per_s / case.candidate.num_workers / dilation)
    return max(least, min(MOST_STEPS, wanted))


def expected_s(case: Case, effort: Effort) -> float:
    """Expect how long all runs of a case take, in real seconds."""
    per_s, dilation = nominal(case, costs(), effort.slowed)
    step_s = dilation * case.candidate.num_workers / per_s
    start_s = START_S + START_S_PER_MACHINE * case.candidate.num_machines
    return effort.repeat * (start_s + steps_of(case, per_s, dilation, effort.seconds) * step_s)


def run_case(case: Case, effort: Effort, zygote: Zygote, out: str | None = None) -> Row:
    """Run one case once; says what was measured, and nothing else."""
    per_s, dilation = nominal(case, costs(), effort.slowed)
    assert case.asked_for.spec is not None
    spec = emulated_spec(
        case.asked_for.spec,
        case.candidate,
        case.asked_for.scenario,
        device=case.asked_for.spec.device,
        dilation=dilation,
        worker_steps=steps_of(case, per_s, dilation, effort.seconds),
        step_s=case.candidate.num_workers / per_s,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = paceline.run(spec, out=out or folder, zygote=zygote)
        per_s = measured_steps_per_s(StoredRun.read(RunDir(Path(result.run))))
    return {
        "per_s": per_s,
        "share": carried_share(result),
        "host_limited": result.host_limited,
        "dilation": dilation,
        "run": str(result.run),
    }


def measured(case: Case, effort: Effort, zygote: Zygote) -> Row:
    """Run a case as often as asked for, one run after the other.

    Whatever goes wrong is what came of this case: those behind it are run all the same, unless
    somebody stopped it.
    """
    row = {**asdict(case.situation), "label": case.candidate.label, "commit": commit()}
    began_s = time.monotonic()
    try:
        tries = [run_case(case, effort, zygote) for _ in range(effort.repeat)]
    except Interrupted:
        raise
    except SpecError as error:
        return {**row, "refused": str(error)}
    except PacelineError as error:
        return {**row, "failed": str(error)}
    except Exception as error:  # noqa: BLE001 - an hour of measuring does not end with one case
        return {**row, "failed": f"{type(error).__name__}: {error}"}
    return {**row, **what_came(tries), "took_s": round(time.monotonic() - began_s, 1)}


@cache
def commit() -> str:
    """Name what is measured: the commit of this checkout, and whether it was changed since."""
    command = ["git", "describe", "--always", "--dirty=+changes", "--abbrev=10", "--exclude=*"]
    try:
        told = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout
        return ""
    return told.stdout.strip()


def what_came(tries: list[Row]) -> Row:
    """Put the runs of a case together."""
    return {
        "per_s": [each["per_s"] for each in tries],
        "share": [each["share"] for each in tries],
        "host_limited": any(each["host_limited"] for each in tries),
        "dilation": tries[0]["dilation"],
        "costs": costs().values(),
    }


def append(path: Path, row: Row) -> None:
    """Keep a row before the next case begins."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[Row]:
    """Read what was measured, each beside what is predicted of it now."""
    if not path.is_file():
        return []
    rows = [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]
    # What was run again stands there twice: the last one counts.
    last = {(situation_of(row).key, row["label"]): row for row in rows}
    return [beside_prediction(row) for row in last.values()]


def situation_of(row: Row) -> Situation:
    return Situation(**{key: row[key] for key in Situation.__dataclass_fields__})


def beside_prediction(row: Row) -> Row:
    """Add what the arithmetic says of a case, with links as measured and as asked for."""
    situation = situation_of(row)
    row = {**row, "key": situation.key}
    if "per_s" not in row:
        return row
    (case,) = (each for each in _cases(situation) if each.candidate.label == row["label"])
    handling, dilation = Costs(**row["costs"]), row["dilation"]
    network = network_of(case.asked_for.scenario)
    carried = with_share(network, statistics.median(row["share"]))
    rates = row["per_s"]
    return {
        **row,
        "measured": statistics.median(rates),
        "spread_of_runs": (max(rates) - min(rates)) / statistics.median(rates),
        "nominal": predicted(case, network, handling, dilation),
        "predicted": predicted(case, carried, handling, dilation),
    }


@cache
def _cases(situation: Situation) -> list[Case]:
    return list(cases(situation))


def is_counted(row: Row) -> bool:
    return "measured" in row and not row["host_limited"] and row["spread_of_runs"] <= MOST_SPREAD


def error_of(row: Row) -> float:
    return float(row["predicted"] / row["measured"] - 1)


def line(row: Row) -> str:
    """Say in a line what came of a case."""
    start = f"{row['key']:32} {row['label']:30}"
    if "measured" not in row:
        why = f"not possible here: {row['refused']}" if "refused" in row else row["failed"]
        return f"{start} {why if 'refused' in row else f'FAILED: {why}'}"
    flaws = [
        *(["host-limited"] if row["host_limited"] else []),
        *(
            [f"spread {100 * row['spread_of_runs']:.0f} %"]
            if row["spread_of_runs"] > MOST_SPREAD
            else []
        ),
    ]
    return (
        f"{start} {row['measured']:9.2f} steps/s, predicted {row['predicted']:9.2f} "
        f"({100 * error_of(row):+6.1f} %; {row['dilation']:g}x, {row['took_s']:.0f} s) "
        f"{', '.join(flaws)}"
    )
