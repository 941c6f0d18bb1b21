"""Random kills during one run per strategy: does it finish, what is left, and what did it cost?

    python benchmarks/faults.py --kills 200 --mtbf 6        # about 20 minutes per strategy
    python benchmarks/faults.py --kills 10 --mtbf 3 --strategies ring

Each victim is started again after half a second; the last living worker is never one. It prints the
goodput, seconds to detection, to the next update and to full strength, and for parameter servers
how long other workers lost at a death: their longest row around it over their usual one; then the
test accuracy beside that of an undisturbed run of two minutes at most. It fails if a run does not
finish, makes fewer kills than asked, leaves a process, ends with workers of a ring whose parameters
differ, does not learn undisturbed, or is then more than a point less accurate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import undisturbed

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
    names = options.strategies.split(",")
    wrong = [each for name in names for each in _measure(name, options)]
    if wrong:
        raise SystemExit("\n".join(wrong))


def _measure(strategy: str, options: argparse.Namespace) -> list[str]:
    """Print what came of it; gives what is wrong."""
    fault = f"random:mtbf={options.mtbf:g}s,restart=0.5s,most={options.kills}"
    seconds = (options.kills + 4 * options.kills**0.5) * options.mtbf  # draws vary
    witness = Witness()
    os.environ.update(witness.environment)
    with tempfile.TemporaryDirectory() as out:
        try:
            result = _run(strategy, options, out, seconds=seconds, fault=fault)
            _print(strategy, result)
            whole = _run(strategy, options, out, seconds=min(seconds, undisturbed.LONGEST_S))
        except RunError as error:
            return [f"{strategy} did not finish: {error}"]
    wrong = undisturbed.problems(strategy, result, whole)
    left = witness.processes()
    print(f"  processes left: {len(left)}")
    num_kills = sum(each.fault == fault for each in result.disturbances)
    if num_kills < options.kills:
        wrong.append(f"{strategy}: only {num_kills} of {options.kills} kills")
    return [*wrong, f"{strategy}: {len(left)} processes are left"] if left else wrong


def _run(strategy: str, options: argparse.Namespace, out: str, **fields: Any) -> Result:
    return paceline.run(
        paceline.RunSpec.from_table(
            {
                **undisturbed.FIELDS,
                "strategy": _OFTEN_COMPARED if strategy == "ring" else strategy,
                "cluster": options.cluster,
                "num_workers": options.workers,
                **fields,
            }
        ),
        out=out,
    )


def _print(strategy: str, result: Result) -> None:
    noted = result.disturbances
    goodput = "none" if result.goodput is None else f"{100 * result.goodput:.0f} %"
    print(
        f"{strategy}: {result.status}, {len(noted)} kills, goodput {goodput}, "
        f"{result.global_steps} updates"
    )
    _spread("known after", [each.detection_s for each in noted])
    _spread("next update after", [each.update_s for each in noted])
    _spread("back after its start", [each.strength_s for each in noted])
    if result.servers:
        _spread("others lost per death", lost_by_others(result))


def _spread(what: str, seconds: Sequence[float | None]) -> None:
    known = sorted(each for each in seconds if each is not None)
    if known:
        median, worst = statistics.median(known), known[-1]
        print(f"  {what:24} median {median:.2f} s, longest {worst:.2f} s ({len(known)})")


def lost_by_others(result: Result) -> list[float]:
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
