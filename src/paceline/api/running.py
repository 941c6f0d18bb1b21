"""`paceline.run` and `paceline.compare`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paceline import comparing
from paceline.api.asking import What, asked
from paceline.clusters.zygote import Zygote
from paceline.comparing import Comparison, ContestStanding, Repeats
from paceline.display import choice
from paceline.engine import driver
from paceline.engine.progress import RunView
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT
from paceline.strategies.base import Strategy

T = TypeVar("T")


def run(
    workload: What,
    /,
    *,
    out: Path | str = DEFAULT_OUT,
    progress: bool | None = None,
    watch: Callable[[RunView], None] | None = None,
    zygote: Zygote | None = None,
    **settings: Any,
) -> Result:
    """Train once, measured; keep the run below `out` and give its result.

    `workload` is a `RunSpec`, a workload, its name, `file.py:Class`, or a spec's TOML file.
    `settings` are fields of the spec, such as `num_workers=2, strategy="ring", epochs=10`; parts
    take a name, a table (`optimizer={"lr": 0.1}`) or a live description (`Sgd(lr=0.1)`).

    `progress=True` shows how far it is, as the command line does; by default that is so only in a
    notebook. `watch` is called about ten times per second with what is known so far. Runs that are
    given the same `zygote` import torch once.

    Raises `SpecError`, `DataError` or `StoreError` before anything is started, and `SeatFailed` or
    `Interrupted`, with the sealed run's result, after.
    """
    spec = _spec(workload, settings)
    with choice.watching(spec, progress) as show:
        return driver.run(spec, out=out, watch=both(show, watch), zygote=zygote)


def _spec(workload: What, settings: Mapping[str, Any]) -> RunSpec:
    if isinstance(workload, RunSpec) and not settings:
        return workload.checked()
    return RunSpec.from_table(asked(workload, settings).table())


def both(first: Callable[[T], None], second: Callable[[T], None] | None) -> Callable[[T], None]:
    """Call two with the same, or the first only."""
    if second is None:
        return first

    def call(seen: T) -> None:
        first(seen)
        second(seen)

    return call


def compare(
    workload: What,
    /,
    *,
    strategies: Sequence[str | Strategy] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    repeat: int | None = None,
    budget_s: float | None = None,
    tune_lr: bool = False,
    out: Path | str = DEFAULT_OUT,
    to: Path | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
    watch: Callable[[ContestStanding], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Train under several strategies, in turns, and say which is best, and why.

    `workload` and `settings` are those of `run`. Every one of `strategies` (single, ps-async,
    ps-sync and ring, unless given) is run with every value of every field in `vary`, such as
    `{"batch": [10, 100]}`. Each side runs `repeat` times; without it, until the spread is known or
    `budget_s` (180) would be exceeded. `tune_lr` compares each side at its best learning rate.

    Runs are kept below `out`; with `resume` finished ones of the same specs there count, and those
    that were lost go on from their checkpoints. The report is written to the folder `to`; without
    it, `write` of the comparison can do so later. `progress` and `watch` are as in `run`. When it
    is interrupted, the comparison tells of the runs that were finished, and `interrupted` is true.

    Raises `SpecError`, `DataError` or `StoreError` before anything is started, and `RunError` or
    `Interrupted` if no run was finished.
    """
    wanted = asked(workload, settings)
    repeats = Repeats.of(repeat, budget_s)
    with choice.following(progress) as shown:
        return comparing.compare(
            wanted,
            strategies=strategies,
            vary=vary,
            repeats=repeats,
            tune_lr=tune_lr,
            out=Path(out),
            to=None if to is None else Path(to),
            resume=resume,
            audience=dataclasses.replace(shown, watch=both(shown.watch, watch)),
        )
