"""From runs of 1 and 2 nodes to 8: what `paceline plan --from` would have said, held against runs.

    python benchmarks/plan_from_runs.py build/plan-from-runs --minutes 12
    python benchmarks/plan_from_runs.py build/plan-from-runs --only-read

Of every model a run of one node gives the step, one of two nodes the link and what servers took;
8 nodes are predicted from these alone, and then run. All runs stay in the folder: what is there is
not run again, and predictions are made anew from them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from plan_cases import MODELS, Case, Situation, asked_of, cases, device_of, every
from plan_measured import (
    Effort,
    Row,
    append,
    commit,
    error_of,
    is_counted,
    line,
    predicted,
    run_case,
    what_came,
)

from paceline.arithmetic.costs import Costs
from paceline.clusters.zygote import Zygote
from paceline.errors import Interrupted, PacelineError
from paceline.planning.from_run import basis_of_run, fields_of
from paceline.planning.plan import network_of
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

WANTED = 0.07
LABELS = ("ring", "ps-sync, 1 server", "ps-sync, a server beside each")
NODES = 8


def situation_of(model: str, nodes: int) -> Situation:
    return Situation(model, nodes, "1gbit", "0")


def case_of(model: str, nodes: int, label: str) -> Case:
    (found,) = (each for each in every(situation_of(model, nodes)) if each.candidate.label == label)
    return found


def measured(model: str, label: str, effort: Effort, zygote: Zygote, folder: Path) -> Row:
    """Run one node, two and eight."""
    row: Row = {"model": model, "label": label, "commit": commit()}
    began_s, once = time.monotonic(), replace(effort, repeat=1)
    try:
        small = {
            "alone": run_case(case_of(model, 1, "single"), once, zygote, str(folder)),
            "two": run_case(case_of(model, 2, label), once, zygote, str(folder)),
        }
        large = case_of(model, NODES, label)
        tries = [run_case(large, effort, zygote) for _ in range(effort.repeat)]
    except Interrupted:
        raise
    except PacelineError as error:
        return {**row, "failed": str(error)}
    except Exception as error:  # noqa: BLE001 - those behind it are measured all the same
        return {**row, "failed": f"{type(error).__name__}: {error}"}
    names = {key: Path(run["run"]).name for key, run in small.items()}
    limited = any(each["host_limited"] for each in (*small.values(), *tries))
    took_s = round(time.monotonic() - began_s, 1)
    return {**row, **names, **what_came(tries), "host_limited": limited, "took_s": took_s}


def beside_prediction(row: Row, folder: Path) -> Row:
    """Add what the two small runs say of eight nodes."""
    situation = situation_of(row["model"], NODES)
    row = {**row, **asdict(situation), "key": f"{situation.key} from 1 and 2"}
    if "per_s" not in row:
        return row
    alone, two = (StoredRun.read(RunDir(folder / row[each])) for each in ("alone", "two"))
    handling = Costs(**row["costs"])
    case = from_small(row["model"], row["label"], alone, two, handling)
    network = network_of(case.asked_for.scenario)
    rates = row["per_s"]
    return {
        **row,
        "measured": statistics.median(rates),
        "spread_of_runs": (max(rates) - min(rates)) / statistics.median(rates),
        "predicted": predicted(case, network, case.basis.costs, row["dilation"]),
    }


def from_small(model: str, label: str, alone: StoredRun, two: StoredRun, handling: Costs) -> Case:
    """Take the step from the run of one node; links and what servers took from that of two."""
    large = situation_of(model, NODES)
    asked_for = asked_of(large, device_of(large), link=fields_of(two)["link"])
    (case,) = (each for each in cases(large) if each.candidate.label == label)
    basis = basis_of_run(two, None, None, handling)
    if two.result.servers:  # as fast as it was while time went slower
        basis = replace(basis, costs=_as_if_not_slowed(basis.costs, handling, two))
    step = basis_of_run(alone, None, None).step
    return replace(case, asked_for=asked_for, basis=replace(basis, step=step))


def _as_if_not_slowed(found: Costs, handling: Costs, two: StoredRun) -> Costs:
    slower = found.scaled(two.result.dilation)
    return replace(
        handling, add_s_per_byte=slower.add_s_per_byte, apply_s_per_byte=slower.apply_s_per_byte
    )


def read(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    rows = [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]
    last = {(row["model"], row["label"]): row for row in rows}
    return [beside_prediction(row, path.parent) for row in last.values()]


def carry_out(path: Path, arguments: argparse.Namespace) -> None:
    known = {(row["model"], row["label"]) for row in read(path) if "failed" not in row}
    # The first strategies of all models first: where time is up, every model counted.
    left = [(model, label) for label in LABELS for model in MODELS if (model, label) not in known]
    effort = Effort(seconds=arguments.seconds, repeat=arguments.repeat, slowed=arguments.slowed)
    began_s = time.monotonic()
    with Zygote() as zygote:
        for number, (model, label) in enumerate(left):
            if time.monotonic() - began_s >= 60 * arguments.minutes:
                print(f"{len(left) - number} cases not begun after {arguments.minutes:g} minutes")
                return
            row = measured(model, label, effort, zygote, path.parent)
            append(path, row)
            print(line(beside_prediction(row, path.parent)), flush=True)


def tell(rows: list[Row]) -> bool:
    errors = [abs(error_of(row)) for row in rows if is_counted(row)]
    for row in rows:
        print(line(row))
    if not errors:
        print(f"no case counted of {len(rows)}")
        return False
    got = statistics.median(errors)
    print(
        f"median {got:.1%}, worst {max(errors):.1%} of {len(errors)} counted of {len(rows)}; "
        f"wanted {WANTED:.0%}: {'met' if got <= WANTED else 'MISSED'}"
    )
    return got <= WANTED


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=12, help="begin no case after so many")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.5, help="real seconds per run")
    parser.add_argument("--slowed", type=float, default=1.0, help="for a host that is busy")
    parser.add_argument("--only-read", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "cases.jsonl"
    if not arguments.only_read:
        try:
            carry_out(path, arguments)
        except (Interrupted, KeyboardInterrupt):
            print("stopped: what is there counts")
    return 0 if tell(read(path)) else 1


if __name__ == "__main__":
    sys.exit(main())
