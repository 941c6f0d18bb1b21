"""`paceline.resume`: a run goes on from its newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from paceline.api.running import both
from paceline.api.stored import Run, load
from paceline.clusters.zygote import Zygote
from paceline.display import choice
from paceline.engine import driver
from paceline.engine.origin import Origin
from paceline.engine.progress import RunView
from paceline.errors import Problem, SpecError
from paceline.outcome.results import Result
from paceline.settings import LENGTHS, Asked
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT

CHANGEABLE: Final = (
    *("num_workers", *LENGTHS, "eval_every", "eval_samples"),
    *("checkpoint_every", "checkpoint_keep", "record", "stuck_s", "when_stuck"),
)
"""What a resumed run may be told that its parent was not: none of it changes what a state is of."""


def origin_of(
    run: str | Path | Result | Run, settings: Mapping[str, Any], out: Path | str = DEFAULT_OUT
) -> tuple[RunSpec, Origin]:
    """Say what a run goes on from, and with which spec. Raises `StoreError` or `SpecError`."""
    parent = (run if isinstance(run, Run) else load(run, out=out)).stored
    origin = Origin.of(parent)
    fixed = [key for key in settings if key.partition(".")[0] not in CHANGEABLE]
    if fixed:
        reason = "a resumed run keeps it"
        raise SpecError([Problem(key, settings[key], reason, CHANGEABLE) for key in fixed])
    table = Asked(parent.folder.read_spec(), settings).table()
    spec = RunSpec.from_table(_without_struck(table, origin))
    origin.check(spec)
    return spec, origin


def _without_struck(table: dict[str, Any], origin: Origin) -> dict[str, Any]:
    """Leave out faults that have struck what a run of fewer workers does not have."""
    parent = RunSpec.from_table(origin.parent.folder.read_spec())
    over = {each for each in parent.fault if each.kind != "random" and origin.has_struck(each)}
    if not over:
        return table
    spec = RunSpec.from_table({key: each for key, each in table.items() if key != "fault"})
    there = {name for seat in spec.seats() for name in (seat.name, seat.node)}
    left = [str(each) for each in parent.fault if each not in over or each.who in there]
    # Without any fault a loss would mean something else, unless it is said.
    return {"on_failure": parent.when_lost, **table, "fault": left}


def resume(
    run: str | Path | Result | Run = "last",
    *,
    out: Path | str = DEFAULT_OUT,
    progress: bool | None = None,
    watch: Callable[[RunView], None] | None = None,
    zygote: Zygote | None = None,
    **settings: Any,
) -> Result:
    """Go on from the newest checkpoint of a run that did not finish; give the new run's result.

    `run` and `out` are what `load` takes. The new run has the spec of the old one, which its
    result names as its `parent`; `settings` may change how long it is, how many workers it has and
    what is recorded. A checkpoint that is torn or damaged is left out, and the one before is used.
    Under `single`, `ring` and `ps-sync` the result is to the bit what it would have been; with
    another number of workers it is not, and says so.

    Raises `StoreError` where there is no checkpoint, and else what `paceline.run` raises.
    """
    spec, origin = origin_of(run, settings, out)
    with choice.watching(spec, progress) as show:
        return driver.run(spec, out=out, watch=both(show, watch), zygote=zygote, origin=origin)
