"""Random kills during one run per strategy: does it finish, what is left, and what did it cost?

    python benchmarks/faults.py --kills 200 --mtbf 6        # about 20 minutes per strategy
    python benchmarks/faults.py --kills 10 --mtbf 3 --strategies ring

Each victim is started again after half a second; the last living worker is never one. It prints the
goodput, seconds to detection, to the next update and to full strength, and for parameter servers
how long other workers lost at a death: their longest row around it over their usual one. It fails
if a run does not finish, makes fewer kills than asked, leaves a process, or ends with workers of a
ring whose parameters differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import paceline
from paceline.errors import RunError
from paceline.outcome.results import Result
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.testing.leftovers import Witness

_WINDOW_S = 1.0
# A ring ends with an error at the first step after which its workers' parameters differ in a bit.
_OFTEN_COMPARED = {"name": "ring", "check_every": 50}


def main() -> None:
    """Measure, and fail where a run did not finish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mtbf", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--strategies", default="ps-async,ring")
    parser.add_argument("--cluster", default="local")
    options = parser.parse_args()
    failed = [name for name in options.strategies.split(",") if not _measure(name, options)]
    if failed:
        raise SystemExit(f"did not finish: {', '.join(failed)}")


def _measure(strategy: str, options: argparse.Namespace) -> bool:
    fault = f"random:mtbf={options.mtbf:g}s,restart=0.5s,most={options.kills}"
    witness = Witness()
    os.environ.update(witness.environment)
    with tempfile.TemporaryDirectory() as out:
        try:
            result = paceline.run(
                "lenet-mnist",
                workload={"subset": "tenth"},
                strategy=_OFTEN_COMPARED if strategy == "ring" else strategy,
                cluster=options.cluster,
                num_workers=options.workers,
                seconds=(options.kills + 4 * options.kills**0.5) * options.mtbf,  # draws vary
                fault=fault,
                out=out,
            )
        except RunError as error:
            print(f"{strategy}: {error}")
            return False
        _print(strategy, result)
    left = witness.processes()
    print(f"  processes left: {len(left)}")
    num_kills = sum(each.fault == fault for each in result.disturbances)
    if num_kills < options.kills:
        print(f"  only {num_kills} of {options.kills} kills")
    return not left and num_kills == options.kills


def _print(strategy: str, result: Result) -> None:
    noted = result.disturbances
    goodput = "none" if result.goodput is None else f"{100 * result.goodput:.0f} %"
    print(
        f"{strategy}: {result.status}, {len(noted)} kills, goodput {goodput}, "
        f"{result.global_steps} updates, test accuracy {100 * (result.test_accuracy or 0):.2f} %"
    )
    _spread("known after", [each.detection_s for each in noted])
    _spread("next update after", [each.update_s for each in noted])
    _spread("back after its start", [each.strength_s for each in noted])
    if result.servers:
        _spread("others lost per death", _lost_by_others(result))


def _spread(what: str, seconds: Sequence[float | None]) -> None:
    known = sorted(each for each in seconds if each is not None)
    if known:
        median, worst = statistics.median(known), known[-1]
        print(f"  {what:24} median {median:.2f} s, longest {worst:.2f} s ({len(known)})")


def _lost_by_others(result: Result) -> list[float]:
    """Of every death, the longest row of another worker around it over that worker's usual one."""
    steps = StoredRun.read(RunDir(Path(result.run))).steps
    lost = []
    for each in result.disturbances:
        worst = 0.0
        for name in {*steps["seat"].unique()} - {each.who}:
            times = steps.filter(steps["seat"] == name)["time_s"].sort().to_list()
            gaps = [(start, end - start) for start, end in pairwise(times)]
            near = [gap for start, gap in gaps if 0 <= start + gap - each.struck_s <= _WINDOW_S]
            usual = statistics.median(gap for _, gap in gaps) if gaps else 0.0
            worst = max([worst, *(gap - usual for gap in near)])
        lost.append(worst)
    return lost


if __name__ == "__main__":
    main()
