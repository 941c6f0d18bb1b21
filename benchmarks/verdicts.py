"""Whether verdicts are right: bottlenecks that were put there, against what a run is said to have.

python benchmarks/verdicts.py verdicts.jsonl [--half tuned] [--only ring] [--report]

Cases that stand in the file are not run again, so it can be stopped and started. Thresholds may be
fixed on the tuned half only; the judged half is for judging. Both are printed. Verdicts are made
anew from the stored results, so a changed threshold needs no new runs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from injected import Case, cases

from paceline.outcome.results import Result, VerdictKind
from paceline.verdict.judge import judge
from paceline.verdict.thresholds import THRESHOLDS, Thresholds

WANTED = 0.95
KINDS = get_args(VerdictKind)
NONE = "none"
HALVES = ("tuned", "judged")


def stored(path: Path) -> dict[str, Result]:
    """Read what was run before; a line that was cut off is run again."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        found[entry["case"]] = Result.from_table(entry["result"])
    return found


def run_missing(wanted: Sequence[Case], path: Path) -> None:
    done = stored(path)
    missing = [case for case in wanted if case.name not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(missing, 1):
        result = case.run()
        with path.open("a") as file:
            file.write(json.dumps({"case": case.name, "result": result.table()}) + "\n")
        print(f"{number}/{len(missing)} {told(case, result)}", flush=True)


def told(case: Case, result: Result, limits: Thresholds = THRESHOLDS) -> str:
    verdict = judge(result, limits)
    kind, where = (verdict.kind, verdict.where) if verdict else (None, None)
    mark = "right" if case.is_right(kind, where) else "WRONG"
    sentence = verdict.sentence if verdict else "nothing"
    return f"{mark}: {case.name}: {kind} {where} ({sentence})"


def matrix(title: str, judged: Sequence[tuple[Case, Result]], limits: Thresholds) -> None:
    """Print which kind was found for which; a right one at a wrong place counts as elsewhere."""
    counts: Counter[tuple[str, str]] = Counter()
    num_right = 0
    for case, result in judged:
        verdict = judge(result, limits)
        kind, where = (verdict.kind, verdict.where) if verdict else (NONE, None)
        is_right = case.is_right(kind, where)
        num_right += is_right
        counts[case.kind, "elsewhere" if kind == case.kind and not is_right else kind] += 1
    share = num_right / len(judged) if judged else 0.0
    met = "met" if share >= WANTED else "MISSED"
    print(f"\n{title}: {num_right} of {len(judged)} right, {share:.3f}; wanted {WANTED}: {met}")
    columns = [each for each in (*KINDS, "elsewhere", NONE) if any(c == each for _, c in counts)]
    print(f"{'truth':>14} {' '.join(f'{each:>12}' for each in columns)}")
    for kind in KINDS:
        row = [counts[kind, each] for each in columns]
        if any(row):
            print(f"{kind:>14} {' '.join(f'{each:>12}' for each in row)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--half", choices=HALVES, help="only these")
    parser.add_argument("--report", action="store_true", help="run nothing, print what there is")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="judge as if the machine were not full: others use it, and no case fills it",
    )
    arguments = parser.parse_args()
    limits = replace(THRESHOLDS, host_full=2.0) if arguments.shared else THRESHOLDS
    wanted = [
        case
        for case in cases()
        if arguments.only in case.name and arguments.half in {None, HALVES[case.is_judged]}
    ]
    if not arguments.report:
        run_missing(wanted, arguments.file)
    done = stored(arguments.file)
    pairs = [(case, done[case.name]) for case in wanted if case.name in done]
    for case, result in pairs:
        print(told(case, result, limits))
    for judged, title in enumerate(HALVES):
        matrix(f"{title} half", [pair for pair in pairs if pair[0].is_judged == judged], limits)


if __name__ == "__main__":
    main()
