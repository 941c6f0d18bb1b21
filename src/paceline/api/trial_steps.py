"""Steps of what is known only while it runs: of scripts, and of models with tables of rows."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline.planning.from_run import basis_of_run
from paceline.planning.plan import Basis
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

if TYPE_CHECKING:
    from paceline.arithmetic.costs import Costs

_STEPS: Final = 40
_QUIET: Final = {"tensorboard": False, "model": False, "monitor": False, "interval_s": 1e-6}


def basis_of_script(spec: RunSpec, costs: Costs, tell: Callable[[str], None]) -> Basis:
    """Run a script for a few steps, alone."""
    note = "a script exchanges gradients after its backward pass; its layers are taken to be alike"
    tell(f"running {spec.workload.name} for {_STEPS} steps on this machine")
    with tempfile.TemporaryDirectory() as out:
        return _named(basis_of_run(_run(spec, out), None, costs), spec, note)


def basis_of_rows(
    spec: RunSpec, costs: Costs | None, measured: Costs | None, tell: Callable[[str], None]
) -> Basis:
    """Run a sparse model for a few steps, one worker and one server; its data says the rows.

    `costs` are given; `measured` are what messages cost here: what its rows cost a server, that
    server says.
    """
    from paceline.planning.sparse import touched_rows

    tell(f"running {spec.workload.name} for {_STEPS} steps on this machine")
    with tempfile.TemporaryDirectory() as out:
        run = _run(spec, out, strategy={"name": "ps-sync"})
        tell("counting the rows that a batch touches")
        expected = dataclasses.replace(run.result, touched_rows=touched_rows(spec))
        run = dataclasses.replace(run, result=expected)
        return _named(basis_of_run(run, None, costs, measured), spec)


def _run(spec: RunSpec, out: str, **more: Mapping[str, Any]) -> StoredRun:
    from paceline.api.running import run

    table = {**spec.values(), "record": _QUIET, "worker_steps": _STEPS, "epochs": None, **more}
    given = {key: value for key, value in table.items() if value is not None}
    result = run(RunSpec.from_table(given), out=out, progress=False)
    return StoredRun.read(RunDir(Path(result.run)))


def _named(basis: Basis, spec: RunSpec, *notes: str) -> Basis:
    title = f"{spec.workload.name}, {_STEPS} steps on this machine"
    return dataclasses.replace(basis, title=title, notes=(*basis.notes, *notes))
