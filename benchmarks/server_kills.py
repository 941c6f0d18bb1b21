"""Servers killed at random during one run per strategy: does it finish, and what did it cost?

    python benchmarks/server_kills.py --kills 50 --mtbf 6     # about 12 minutes per strategy
    python benchmarks/server_kills.py --victims workers,servers
    python benchmarks/server_kills.py --large                 # how soon a server of 233 MB is back

Each victim is started again after half a second. It prints the goodput, seconds to detection, to
the next update and from a server's start until all go on with it, how many updates were lost, and
for asynchronous strategies whether every push was applied once or is counted as lost: the server's
ledger; then the test accuracy beside that of an undisturbed run of two minutes at most. It fails if
a run does not finish, makes fewer kills than asked, does not learn undisturbed, is then more than a
point less accurate, or its ledger does not add up; with `--large` also if the server took more than
5 s.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import undisturbed

import paceline
from paceline.errors import RunError
from paceline.outcome.results import Result

_VICTIMS = {"servers": "servers", "workers,servers": "all"}
_LARGE_BYTES = 233_000_000
_MOST_BACK_S = 5.0
# A kill that is due waits until a victim is back, where the others are away: on a busy machine this
# long on the average.
_AWAY_S = 2.0


def main() -> None:
    """Measure, and fail where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--mtbf", type=float, default=6.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--strategies", default="ps-async,ps-ssp,ps-sync")
    parser.add_argument("--victims", choices=tuple(_VICTIMS), default="servers")
    parser.add_argument("--cluster", default="local")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    problems = _large(options) if options.large else _random(options)
    if problems:
        raise SystemExit("\n".join(problems))


def _random(options: argparse.Namespace) -> list[str]:
    fault = f"random:mtbf={options.mtbf:g}s,restart=0.5s,most={options.kills}"
    draws_s = (options.kills + 4 * options.kills**0.5) * options.mtbf  # they vary
    seconds = draws_s + options.kills * _AWAY_S
    runs: list[dict[str, Any]] = [
        {"seconds": seconds, "fault": f"{fault},who={_VICTIMS[options.victims]}"},
        {"seconds": min(seconds, undisturbed.LONGEST_S)},
    ]
    problems = []
    for name in options.strategies.split(","):
        strategy = {"name": name, "snapshot_s": 1.0}
        result, whole = (_run(strategy, options, **undisturbed.FIELDS, **each) for each in runs)
        if isinstance(result, str) or isinstance(whole, str):
            problems += [each for each in (result, whole) if isinstance(each, str)]
            continue
        _print(name, result)
        problems += undisturbed.problems(name, result, whole)
        if len(result.disturbances) < options.kills:
            problems.append(f"{name}: only {len(result.disturbances)} of {options.kills} kills")
        if options.victims == "servers" and name != "ps-sync":
            problems += _ledger(name, result)
    return problems


def _large(options: argparse.Namespace) -> list[str]:
    """Kill the server of a large model once a snapshot of all of it is written."""
    workload = {"name": "synthetic", "bytes": _LARGE_BYTES, "rows": 1000}
    result = _run(
        {"name": "ps-async", "snapshot_s": 2.0},
        options,
        workload=workload,
        seconds=40,
        fault="restart:server0@20s+0s",
    )
    if isinstance(result, str):
        return [result]
    _print("233 MB", result)
    took_s = [each.strength_s for each in result.disturbances]
    are_soon = all(each is not None and each <= _MOST_BACK_S for each in took_s)
    return [] if took_s and are_soon else [f"a server was not back within {_MOST_BACK_S:g} s"]


def _run(strategy: dict[str, Any], options: argparse.Namespace, **fields: Any) -> Result | str:
    with tempfile.TemporaryDirectory() as out:
        try:
            spec = paceline.RunSpec.from_table(
                {
                    "strategy": strategy,
                    "cluster": options.cluster,
                    "num_workers": options.workers,
                    **fields,
                }
            )
            return paceline.run(spec, out=out)
        except RunError as error:
            return f"{strategy['name']}: {error}"


def _ledger(name: str, result: Result) -> list[str]:
    """Every push is an update once, or counted as lost."""
    pushes = sum(each.worker_steps for each in result.workers)
    applied = result.servers[0].updates or 0
    lost = sum(each.updates_lost or 0 for each in result.disturbances)
    print(f"  {pushes:,} pushes = {applied:,} updates + {lost:,} lost")
    # An update whose answer was under way counts as lost, and its push is applied again.
    most = len(result.disturbances) * (len(result.workers) - 1)
    adds_up = 0 <= applied + lost - pushes <= most
    return [] if adds_up else [f"{name}: the ledger does not add up"]


def _print(name: str, result: Result) -> None:
    noted = result.disturbances
    lost = sum(each.updates_lost or 0 for each in noted)
    goodput = "none" if result.goodput is None else f"{100 * result.goodput:.0f} %"
    print(
        f"{name}: {result.status}, {len(noted)} kills, goodput {goodput}, "
        f"{result.global_steps} updates, {lost:,} lost"
    )
    _spread("known after", [each.detection_s for each in noted])
    _spread("next update after", [each.update_s for each in noted])
    _spread("back after its start", [each.strength_s for each in noted])


def _spread(what: str, seconds: Sequence[float | None]) -> None:
    known = sorted(each for each in seconds if each is not None)
    if known:
        median, worst = statistics.median(known), known[-1]
        print(f"  {what:24} median {median:.2f} s, longest {worst:.2f} s ({len(known)})")


if __name__ == "__main__":
    main()
