"""Workers killed at random during one run per strategy: does it finish, and what did it cost?

    python benchmarks/faults.py --kills 200 --mtbf 6        # half an hour or more per strategy
    python benchmarks/faults.py --kills 10 --mtbf 3 --strategies ring
    python benchmarks/faults.py --kept build/faults.jsonl   # goes on where it was

Each victim is started again after half a second; the last living worker is never one. The run is
stopped a few seconds after its last kill. It prints the goodput, seconds to detection, to the next
update and to full strength, and for parameter servers how long other workers lost at a death: the
longest row of one that was there over its usual one. When all strategies were through, each trains
undisturbed until it has made as many updates, and the test accuracy of both is compared.

It fails if a run does not go on until it had all of its kills, if it leaves a process, if workers
of a ring have parameters that differ, if the run does not learn undisturbed, or if it is more than
a point less accurate than that.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kept import Kept
from kills import FIELDS, Figures, longest_s, problems_of_all, show

# A ring ends with an error at the first step after which its workers' parameters differ in a bit.
_OFTEN_COMPARED = {"name": "ring", "check_every": 50}


def main() -> None:
    """Measure, and fail where something is not as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mtbf", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--strategies", default="ps-async,ring")
    parser.add_argument("--cluster", default="local")
    parser.add_argument("--kept", type=Path, help="where figures are kept")
    options = parser.parse_args()
    tables = {name: _table(name, options) for name in options.strategies.split(",")}
    problems = problems_of_all(tables, options.kills, Kept(options.kept), _judge)
    if problems:
        raise SystemExit("\n".join(problems))


def _table(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Say what is run."""
    return {
        **FIELDS,
        "strategy": _OFTEN_COMPARED if name == "ring" else name,
        "cluster": options.cluster,
        "num_workers": options.workers,
        "fault": f"random:mtbf={options.mtbf:g}s,restart=0.5s,most={options.kills}",
        "seconds": longest_s(options.kills, options.mtbf),
    }


def _judge(name: str, struck: Figures) -> list[str]:
    show(name, struck, others=bool(struck.applied))
    return []


if __name__ == "__main__":
    main()
