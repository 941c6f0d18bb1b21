"""A comparison from what is asked for to its report: what the command line and Python both call."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from paceline.clusters.zygote import Zygote
from paceline.comparing.audience import Audience
from paceline.comparing.comparison import Comparison, carry_out
from paceline.comparing.contest import Contest, Repeats
from paceline.comparing.earlier import Earlier
from paceline.comparing.same_threads import with_same_threads
from paceline.comparing.specs import DEFAULT_STRATEGIES, Named, Vary, check_tunable, sides
from paceline.engine import driver
from paceline.errors import Problem, SpecError, StoreError
from paceline.reporting import write
from paceline.settings import Asked
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT

# Short names for what is varied most.
_ALIASES: Final = {"lr": "optimizer.lr", "workers": "num_workers", "strategy": "strategy.name"}


def compare(
    asked: Asked,
    *,
    strategies: Sequence[Named] | None = None,
    vary: Vary | None = None,
    repeats: Repeats | None = None,
    tune_lr: bool = False,
    out: Path = DEFAULT_OUT,
    to: Path | None = None,
    reports: Path | None = None,
    resume: bool = False,
    audience: Audience | None = None,
) -> Comparison:
    """Run every side in turns, say what they show, and write it down where that is asked for.

    The report goes to the folder `to`, or into a new one below `reports`; without either none is
    written. With `resume`, finished runs of the same specs below `out` count, and those that were
    lost go on from their checkpoints. Raises `SpecError`, `DataError` or `StoreError` before
    anything is started, and `Interrupted` or `RunError` if no run has finished.
    """
    driver.refuse_in_a_seat("paceline.compare")
    repeats, audience = repeats or Repeats(), audience or Audience()
    varied = {_ALIASES.get(key, key): list(values) for key, values in (vary or {}).items()}
    named = _strategies(strategies, varied)
    specs = sides(asked, named, varied, audience.prepare)
    if tune_lr:
        check_tunable(specs)
    folder = _folder(to, reports, specs[0])
    with Zygote() as zygote:
        specs, said = with_same_threads(specs, zygote)
        audience.say([*said, repeats.sentence(len(specs))])
        earlier = Earlier(out) if resume else None
        contest = Contest(out=out, watch=audience.watch, zygote=zygote, earlier=earlier)
        made = carry_out(contest, specs, repeats, tune_lr=tune_lr, notes=said)
    return made if folder is None else dataclasses.replace(made, report=write(made.page, folder))


def _strategies(given: Sequence[Named] | None, varied: dict[str, list[Any]]) -> Sequence[Named]:
    """Give the strategies to compare; to vary `strategy` is another way to say them.

    What is varied beside them stays in `varied`.
    """
    names: list[Named] | None = varied.pop(_ALIASES["strategy"], None)
    if names is None:
        return DEFAULT_STRATEGIES if given is None else given
    if given is not None:
        listed, others = (",".join(map(str, each)) for each in (names, given))
        reason = f"--strategies {others} is given too: name all strategies in one of them"
        raise SpecError([Problem("--vary", f"strategy={listed}", reason)])
    return names


def _folder(to: Path | None, reports: Path | None, spec: RunSpec) -> Path | None:
    """Make the report's folder first: that it cannot be written must not come after hours."""
    if to is None and reports is not None:
        workload = Path(spec.workload.name).name.rpartition(":")[2]
        to = reports / f"{time.strftime('%Y%m%d-%H%M%S')}-{workload}"
    try:
        if to is not None:
            to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write a report to {to}: {error.strerror or error}") from error
    return to
