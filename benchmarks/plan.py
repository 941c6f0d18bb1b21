"""How far plans are off: predictions held against emulated runs that no constant was fitted on.

    python benchmarks/plan.py build/plan.jsonl --minutes 40 --write
    python benchmarks/plan.py build/plan.jsonl --only-read [--write]
    python benchmarks/plan.py build/plan.jsonl --estimate

In every situation of plan-grid.csv, `ring`, `ps-sync` with one server and with one beside every
worker, and `ps-async` are run, replayed and slowed as far as it takes for this host to carry the
traffic and to handle it, and predicted. Links are taken as the run measured them before it began,
and beside that as they were asked for. Every case is run `--repeat` times, one after the other; the
median counts. Left out and counted: cases that the host could not keep up with, that varied by more
than 5 %, that failed, and that this kernel cannot emulate.

Each case is appended to the file when it was measured, with the commit it was measured of, and one
that is in it is not run again, but for what failed; `--again` runs those again, too, that this host
could not keep up with or that varied, and the newest counts. Situations stand in an order of which
every beginning is a sample of all: after `--minutes` no further case is begun, and what is there
counts. The file holds what was measured; predictions are made anew from it whenever it is read, so
a changed arithmetic needs no new runs.

plan-measured.jsonl is what was measured so far: copied to where FILE is to be, it is gone on from.

`--write` writes the distribution of errors into the package that is imported, to be printed under
every plan; of fewer than 40 cases nothing is written.
`--estimate` runs nothing, and says how long all takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from plan_cases import LABELS, Case, balanced, cases, grid
from plan_errors import tell, write
from plan_measured import (
    Effort,
    Row,
    append,
    beside_prediction,
    expected_s,
    is_counted,
    line,
    measured,
    read,
)

from paceline.clusters.zygote import Zygote
from paceline.errors import Interrupted


def wanted(arguments: argparse.Namespace) -> list[Case]:
    """Give the cases that are to be measured, in their order."""
    return [
        case
        for situation in balanced(grid())[: arguments.situations]
        if situation.nodes <= arguments.most_nodes
        for case in cases(situation)
        if arguments.label in {None, case.candidate.label}
    ]


def left_of(found: list[Case], path: Path, *, again: bool = False) -> list[Case]:
    """Give the cases that are still to be run; `again`: also those that did not count."""
    known = {(row["key"], row["label"]) for row in read(path) if _is_done(row, again=again)}
    return [each for each in found if each.key not in known]


def _is_done(row: Row, *, again: bool) -> bool:
    if "refused" in row:  # this kernel will not say anything else
        return True
    return is_counted(row) if again else "failed" not in row


def carry_out(left: list[Case], path: Path, arguments: argparse.Namespace) -> None:
    """Measure what is left, as far as there is time."""
    began_s = time.monotonic()
    with Zygote() as zygote:
        for number, case in enumerate(left, start=1):
            minutes = (time.monotonic() - began_s) / 60
            if arguments.minutes is not None and minutes >= arguments.minutes:
                print(f"{len(left) - number + 1} cases not begun after {minutes:.0f} minutes")
                return
            row = measured(case, effort_of(arguments), zygote)
            append(path, row)
            told = line(beside_prediction(row))
            print(f"{number:3}/{len(left)}, {minutes:.0f} min: {told}", flush=True)


def effort_of(arguments: argparse.Namespace) -> Effort:
    return Effort(seconds=arguments.seconds, repeat=arguments.repeat, slowed=arguments.slowed)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, help="begin no case after so many")
    parser.add_argument("--situations", type=int, help="only so many of them")
    parser.add_argument("--label", choices=LABELS, help="only this strategy")
    parser.add_argument("--most-nodes", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.5, help="real seconds per run")
    parser.add_argument("--slowed", type=float, default=1.0, help="for a host that is busy")
    parser.add_argument("--again", action="store_true", help="also what did not count")
    parser.add_argument("--estimate", action="store_true", help="say how long it takes")
    parser.add_argument("--only-read", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="ship the result with the package")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.only_read:
        left = left_of(wanted(arguments), arguments.results, again=arguments.again)
        total_s = sum(expected_s(each, effort_of(arguments)) for each in left)
        print(f"{len(left)} cases, about {total_s / 60:.0f} minutes on a quiet machine", flush=True)
        if arguments.estimate:
            return 0
        try:
            carry_out(left, arguments.results, arguments)
        except (Interrupted, KeyboardInterrupt):
            print("stopped: what is there counts")
    rows = read(arguments.results)
    met = tell(rows)
    if arguments.write:
        write(rows)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
