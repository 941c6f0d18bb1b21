"""Servers killed at random during one run per strategy: does it finish, and what did it cost?

    python benchmarks/server_kills.py --kills 50 --mtbf 6     # 10 to 20 minutes per strategy
    python benchmarks/server_kills.py --victims workers,servers
    python benchmarks/server_kills.py --servers 2 --strategies ps-async,ps-sync
    python benchmarks/server_kills.py --large                 # how soon a server of 233 MB is back
    python benchmarks/server_kills.py --kept build/server-kills.jsonl  # goes on where it was

Each victim is started again after half a second, and the run is stopped a few seconds after its
last kill. It prints the goodput, seconds to detection, to the next update and from a server's start
until all go on with it, and how many updates were lost; then the ledger of each server: whether
every push was applied once, or is counted as lost. When all strategies were through, each trains
undisturbed until it has made as many updates, and the test accuracy of both is compared.

It fails if a run does not go on until it had all of its kills, if it leaves a process, if a ledger
does not add up, if the run does not learn undisturbed, or if it is more than a point less accurate
than that; with `--large` if the server took more than 5 s.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ledger
from kept import Kept
from kills import FIELDS, Figures, longest_s, problems_of_all, show

import paceline
from paceline.errors import RunError

_VICTIMS = {"servers": "servers", "workers,servers": "all"}
_IN_STEP = ("ps-sync",)
_LARGE_BYTES = 233_000_000
_MOST_BACK_S = 5.0


def main() -> None:
    """Measure, and fail where something is not as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--mtbf", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--strategies", default="ps-async,ps-ssp,ps-sync")
    parser.add_argument("--victims", choices=tuple(_VICTIMS), default="servers")
    parser.add_argument("--cluster", default="local")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--kept", type=Path, help="where figures are kept")
    options = parser.parse_args()
    problems = _large(options) if options.large else _random(options)
    if problems:
        raise SystemExit("\n".join(problems))


def _random(options: argparse.Namespace) -> list[str]:
    tables = {name: _table(name, options) for name in options.strategies.split(",")}
    return problems_of_all(tables, options.kills, Kept(options.kept), _judge)


def _judge(name: str, struck: Figures) -> list[str]:
    show(name, struck)
    return ledger.problems(name, struck, in_step=name in _IN_STEP)


def _table(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Say what is run."""
    random = f"random:mtbf={options.mtbf:g}s,restart=0.5s,most={options.kills}"
    return {
        **FIELDS,
        "strategy": {"name": name, "snapshot_s": 1.0, "servers": options.servers},
        "cluster": options.cluster,
        "num_workers": options.workers,
        "fault": f"{random},who={_VICTIMS[options.victims]}",
        "seconds": longest_s(options.kills, options.mtbf),
    }


def _large(options: argparse.Namespace) -> list[str]:
    """Kill the server of a large model once a snapshot of all of it is written."""
    spec = paceline.RunSpec.from_table(
        {
            "workload": {"name": "synthetic", "bytes": _LARGE_BYTES, "rows": 1000},
            "strategy": {"name": "ps-async", "snapshot_s": 2.0},
            "cluster": options.cluster,
            "num_workers": options.workers,
            "seconds": 40,
            "fault": "restart:server0@20s+0s",
        }
    )
    with tempfile.TemporaryDirectory() as out:
        try:
            result = paceline.run(spec, out=out)
        except RunError as error:
            return [f"233 MB: {error}"]
    took_s = [each.strength_s for each in result.disturbances]
    lost = sum(each.updates_lost or 0 for each in result.disturbances)
    print(f"233 MB: {result.global_steps} updates, {lost:,} lost, a server back after {took_s} s")
    are_soon = all(each is not None and each <= _MOST_BACK_S for each in took_s)
    return [] if took_s and are_soon else [f"a server was not back within {_MOST_BACK_S:g} s"]


if __name__ == "__main__":
    main()
