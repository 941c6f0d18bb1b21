"""How long a fault costs on emulated nodes: those who are left, and whoever comes back.

    python benchmarks/fault_times.py --repetitions 3        # about 8 minutes, a quiet machine
    python benchmarks/fault_times.py --only ring-killed,ring-cut

Every node has a link of its own. Each case is a run in which one thing is struck; the cases take
turns. Prints seconds (median, lowest to highest) and whether the worst is below what is wanted:
how long the slowest other worker of a parameter server lost at a death (its longest row around it
over its usual one), how soon a ring makes its next update after a kill and after a cut link, how
soon a worker with 100 MB of parameters takes part again, and how soon all go on with a server of
233 MB. Fails where one takes longer than that, or never comes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bounded import DidNotRun
from kills import lost_by_others_of
from trials import Trials, spread, table, take_turns

import paceline
from paceline.outcome.disturbed import Disturbance
from paceline.outcome.results import Result

Measure = Callable[[Result], float | None]
LENET: Final = {
    "workload": {"name": "lenet-mnist", "subset": "tenth"},
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
}


@dataclass(frozen=True)
class Case:
    """One thing that is struck, and what of it is measured."""

    what: str
    wanted_s: float
    measure: Measure
    fields: dict[str, Any]


def _of(moment: Callable[[Disturbance], float | None]) -> Measure:
    """Take a figure of the only disturbance."""

    def measure(result: Result) -> float | None:
        return moment(result.disturbances[0]) if result.disturbances else None

    return measure


def _lenet(strategy: str, fault: str, seconds: float, link: str = "1gbit") -> dict[str, Any]:
    cluster = {"name": "emulated", "link": link}
    return {**LENET, "strategy": strategy, "fault": fault, "seconds": seconds, "cluster": cluster}


def _large(strategy: dict[str, Any], size: str, fault: str, link: str) -> dict[str, Any]:
    return {
        "workload": {"name": "synthetic", "bytes": size, "rows": 1000},
        "strategy": strategy,
        "cluster": {"name": "emulated", "link": link},
        "num_workers": 2,
        "seconds": 22.0,
        "fault": fault,
    }


def _others(strategy: str) -> Case:
    """Of several deaths in one run: a worker is killed, and is back before the next."""
    faults = [f"restart:worker{number}@{6 * number}s+0s" for number in (1, 2)]
    fields = _lenet(strategy, "", 17.0) | {"fault": faults}
    return Case(f"{strategy}: others lost at a death", 0.1, _longest_loss, fields)


def _longest_loss(result: Result) -> float | None:
    lost = lost_by_others_of(result)
    return max(lost) if len(lost) == 2 else None


_UPDATE = _of(lambda each: each.update_s)
_BACK = _of(lambda each: each.strength_s)
CASES: Final = {
    **{f"{name}-others": _others(name) for name in ("ps-async", "ps-ssp", "ps-sync")},
    "ring-killed": Case(
        "ring: next update after a kill",
        3.0,
        _UPDATE,
        _lenet("ring", "kill:worker1@5s", 10.0),
    ),
    "ring-cut": Case(
        "ring: next update after a cut link",
        8.0,
        _UPDATE,
        _lenet("ring", "cut:node1@5s+10s", 18.0),
    ),
    "worker-back": Case(
        "ring: a worker with 100 MB is back, 1 Gbit/s",
        5.0,
        _BACK,
        _large({"name": "ring"}, "100MB", "restart:worker1@8s+0s", "1gbit"),
    ),
    "server-back": Case(
        "ps-async: all go on with a server of 233 MB, 10 Gbit/s",
        5.0,
        _BACK,
        _large(
            {"name": "ps-async", "snapshot_s": 2.0, "placement": "separate"},
            "233MB",
            "restart:server0@10s+0s",
            "10gbit",
        ),
    ),
}


def measured_s(name: str, workers: int) -> float:
    """Carry out a run; raises `DidNotRun` where nothing came of it."""
    case = CASES[name]
    record = {"tensorboard": False, "model": False, "interval_s": 0.02}
    table = {"num_workers": workers, "threads": 1, "record": record, **case.fields}
    with tempfile.TemporaryDirectory() as out:
        try:
            result = paceline.run(paceline.RunSpec.from_table(table), out=out)
            seconds = case.measure(result)
        except paceline.RunError as error:
            raise DidNotRun(str(error)) from error
    if seconds is None:
        raise DidNotRun(f"it never came: {result.disturbances}")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    measure = partial(measured_s, workers=options.workers)
    names = options.only.split(",")
    trials = take_turns(names, measure, options.repetitions, _say, "{:.2f} s".format)
    print(_table(trials))
    return 0 if all(_is_met(trials, name) for name in names) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(trials: Trials) -> str:
    rows = [(CASES[name].what, *_told(trials, name)) for name in trials.rates]
    return table(("case", "seconds", "wanted"), rows)


def _told(trials: Trials, name: str) -> Sequence[str]:
    seconds, most = trials.measured(name), f"{CASES[name].wanted_s:g}"
    if name in trials.reasons:
        return f"did not run: {trials.reasons[name]}", most
    return f"{spread(seconds, 2)} s", f"{most}: {'met' if _is_met(trials, name) else 'MISSED'}"


def _is_met(trials: Trials, name: str) -> bool:
    seconds = trials.measured(name)
    return name not in trials.reasons and max(seconds) <= CASES[name].wanted_s


if __name__ == "__main__":
    sys.exit(main())
