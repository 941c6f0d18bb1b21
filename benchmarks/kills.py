"""Runs of LeNet with random kills, stopped soon after the last one, and the same run undisturbed.

What came of a run is summed up in plain values, so that it can be kept in a file.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from kept import Kept

import paceline
from paceline.engine.progress import RunView
from paceline.errors import Interrupted, RunError
from paceline.outcome.disturbed import Disturbance
from paceline.outcome.results import Result
from paceline.testing.leftovers import Witness

FIELDS: Final[dict[str, Any]] = {
    "workload": {"name": "lenet-mnist", "subset": "tenth"},
    # At the workload's own rate of 0.05 asynchronous workers do not learn, disturbed or not.
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
}
# A run goes on so long after its last kill: the victim is back then, also on a busy machine.
AFTER_S: Final = 5.0
# Of ten classes: below this a run has not learned them.
_LEARNED: Final = 0.5
_ONE_POINT: Final = 0.01
# What counts as around a death: what began at most so long after it.
_WINDOW_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What came of a run."""

    num_kills: int
    updates: int
    train_s: float
    accuracy: float
    goodput: float | None
    detection_s: list[float]
    update_s: list[float]
    strength_s: list[float]
    others_s: list[float]
    """By how much each death lengthened the longest row of another worker."""
    pushes: dict[str, int]
    """Steps by worker, whichever incarnation made them."""
    most_per_row: int
    """The most steps of a row: of no more than these nobody knows when a worker is killed."""
    applied: dict[str, int]
    """Updates by server."""
    lost: dict[str, int]
    """Updates that a server lost, by server."""
    losses: dict[str, int]
    """How often each seat was given up."""
    problems: list[str]


def longest_s(num_kills: int, mtbf_s: float) -> float:
    """Say how long a run may take until its last kill: how soon they come is drawn, and one that is
    due waits while only one worker lives.
    """
    return 2 * num_kills * mtbf_s + 60.0


def problems_of_all(
    tables: Mapping[str, dict[str, Any]],
    num_kills: int,
    kept: Kept,
    judge: Callable[[str, Figures], list[str]],
) -> list[str]:
    """Carry out runs with kills, then each undisturbed; print what came of them, and say what is
    wrong. `judge` does that for one with kills.
    """
    found: dict[str, Figures] = {}
    problems = []
    for name, table in tables.items():
        try:
            measured = kept(json.dumps(table), partial(disturbed, table, num_kills))
        except Interrupted:
            raise
        except RunError as error:
            problems.append(f"{name} did not finish: {error}")
            continue
        found[name] = Figures(**measured)
        problems += judge(name, found[name])
        problems += [f"{name}: {each}" for each in found[name].problems]
        if found[name].num_kills < num_kills:
            problems.append(f"{name}: only {found[name].num_kills} of {num_kills} kills")
    for name, struck in found.items():
        table = _undisturbed(tables[name], struck.updates)
        try:
            whole = Figures(**kept(json.dumps(table), partial(_carried_out, table)))
        except Interrupted:
            raise
        except RunError as error:
            problems.append(f"{name} did not finish undisturbed: {error}")
            continue
        problems += compare(name, struck, whole)
    return problems


class StopAfter:
    """Watches a run, and stops it as Ctrl-C does soon after its last kill.

    Time without kills would make the goodput better than it is while there are some.
    """

    def __init__(self, num_kills: int) -> None:
        self._num_kills = num_kills
        self._last_s = math.inf
        self.is_asked = False

    def __call__(self, view: RunView) -> None:
        if view.num_faults < self._num_kills or self.is_asked:
            return
        self._last_s = min(self._last_s, view.time_s)
        if view.time_s - self._last_s >= AFTER_S:
            self.is_asked = True
            signal.raise_signal(signal.SIGINT)


def disturbed(table: Mapping[str, Any], num_kills: int) -> dict[str, Any]:
    """Carry out a run until it had so many kills, or has come to its end; give its figures.

    Raises `RunError` where it does not get there.
    """
    # A shell has programs in its background ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stop, witness = StopAfter(num_kills), Witness()
    os.environ.update(witness.environment)
    with tempfile.TemporaryDirectory() as out:
        spec = paceline.RunSpec.from_table(table)
        try:
            result = paceline.run(spec, out=out, watch=stop)
        except Interrupted as error:
            if not stop.is_asked:
                raise
            result = error.result
        return _summed_up(result, len(witness.processes()))


def _undisturbed(table: Mapping[str, Any], updates: int) -> dict[str, Any]:
    """Say what the same run is without faults, until it has made as many updates."""
    return {
        **{key: value for key, value in table.items() if key not in ("fault", "seconds")},
        "steps": updates,
    }


def _carried_out(table: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as out:
        return _summed_up(paceline.run(paceline.RunSpec.from_table(table), out=out), 0)


def _summed_up(result: Result, num_left: int) -> dict[str, Any]:
    rows, noted = paceline.load(result).rows(), result.disturbances
    lost: Counter[str] = Counter()
    for each in noted:
        lost[each.who] += each.updates_lost or 0
    return asdict(
        Figures(
            num_kills=sum(each.fault is not None for each in noted),
            updates=result.global_steps or 0,
            train_s=result.train_s or 0.0,
            accuracy=accuracy_of(result),
            goodput=result.goodput,
            detection_s=_known(each.detection_s for each in noted),
            update_s=_known(each.update_s for each in noted),
            strength_s=_known(each.strength_s for each in noted),
            others_s=lost_by_others_of(result),
            pushes={each.name: each.worker_steps for each in result.workers},
            most_per_row=int(max(rows["count"].to_list(), default=0)),
            applied={each.name: each.updates or 0 for each in result.servers},
            lost={name: count for name, count in lost.items() if name.startswith("server")},
            losses=dict(Counter(each.who for each in noted if each.known_s is not None)),
            problems=_problems_of(result, num_left),
        )
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def _problems_of(result: Result, num_left: int) -> list[str]:
    """Say what is wrong with a run that did not fail."""
    found = [each for each in result.warnings if "failed while the run was stopped" in each]
    return [*found, f"{num_left} processes are left"] if num_left else found


def accuracy_of(result: Result) -> float:
    """Evaluate the parameters that a run kept, on all test rows: one that is stopped does not."""
    import torch
    from safetensors.torch import load_file

    workload = paceline.RunSpec.from_table(paceline.load(result).spec).workload
    model = workload.model()
    model.load_state_dict(load_file(Path(result.run) / "model.safetensors"))
    model.eval()
    rows = workload.data("test", torch.float32)
    with torch.no_grad():
        found = workload.metrics(model, rows.take(torch.arange(len(rows))))
    return float(found["accuracy"])


def lost_by_others_of(result: Result) -> list[float]:
    """The same as `lost_by_others`, of the rows of a run."""
    parts = paceline.load(result).rows().group_by("seat")
    times = {str(key[0]): part["time_s"].to_list() for key, part in parts}
    return lost_by_others(times, result.disturbances)


def lost_by_others(
    times: Mapping[str, Sequence[float]], disturbances: Sequence[Disturbance]
) -> list[float]:
    """Of every death, the longest row of another worker around it over that worker's usual one.

    `times` has the moments at which each worker wrote a row. Between two of them it may have been
    away itself, and then they say nothing of what the death of another cost.
    """
    rows = {name: _rows(name, own, disturbances) for name, own in times.items()}
    return [
        max(
            (_lost_at(each.struck_s, own) for name, own in rows.items() if name != each.who),
            default=0.0,
        )
        for each in disturbances
    ]


def _rows(
    name: str, times: Sequence[float], disturbances: Sequence[Disturbance]
) -> list[tuple[float, float]]:
    """Give from when to when each row of a worker is, but for those in which it was away."""
    away = [
        (each.struck_s, math.inf if each.back_s is None else each.back_s)
        for each in disturbances
        if each.who == name
    ]
    return [
        (begin, end)
        for begin, end in pairwise(sorted(times))
        if not any(begin < until and end > since for since, until in away)
    ]


def _lost_at(struck_s: float, rows: Sequence[tuple[float, float]]) -> float:
    lengths = [end - begin for begin, end in rows]
    usual_s = statistics.median(lengths) if lengths else 0.0
    near = [end - begin for begin, end in rows if begin <= struck_s + _WINDOW_S and end >= struck_s]
    return max(0.0, max(near, default=0.0) - usual_s)


def show(name: str, figures: Figures, *, others: bool = False) -> None:
    """Print what came of a run with kills."""
    goodput = "none" if figures.goodput is None else f"{100 * figures.goodput:.0f} %"
    lost = max(figures.lost.values(), default=0)
    print(
        f"{name}: {figures.num_kills} kills in {figures.train_s:.0f} s, goodput {goodput}, "
        f"{figures.updates:,} updates" + (f", {lost:,} lost" if figures.lost else ""),
        flush=True,
    )
    _spread("known after", figures.detection_s)
    _spread("next update after", figures.update_s)
    _spread("back after its start", figures.strength_s)
    if others:
        _spread("others lost per death", figures.others_s)


def _spread(what: str, seconds: Sequence[float]) -> None:
    if seconds:
        median, worst = statistics.median(seconds), max(seconds)
        print(f"  {what:24} median {median:.2f} s, longest {worst:.2f} s ({len(seconds)})")


def compare(name: str, struck: Figures, whole: Figures) -> list[str]:
    """Print the accuracy of both after as many updates, and say what is wrong with it."""
    print(f"{name}: test accuracy {_shown(struck)}; undisturbed {_shown(whole)}", flush=True)
    if whole.accuracy < _LEARNED:
        return [f"{name}: it does not learn undisturbed"]
    below = whole.accuracy - struck.accuracy
    return [f"{name}: {100 * below:.2f} points below undisturbed"] if below > _ONE_POINT else []


def _shown(figures: Figures) -> str:
    percent = 100 * figures.accuracy
    return f"{percent:.2f} % after {figures.updates:,} updates in {figures.train_s:.0f} s"
