"""A plan from stored runs: steps, links and what servers took are those that were measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline.errors import Problem, SpecError
from paceline.planning.asking import AskedPlan, asked
from paceline.planning.candidates import strategy_problems
from paceline.planning.from_run import basis_of_run, fields_of, link_note, optimizer_of
from paceline.planning.plan import Basis
from paceline.store.runs import find_run
from paceline.store.stored import StoredRun

if TYPE_CHECKING:
    from paceline.arithmetic.costs import Costs
    from paceline.training.optim import Optimizer

_OF_THE_RUN: Final = {
    "device": "a run says what computes",
    "batch": "a run says its rows per worker per step",
    "rows_per_s": "a run says how long its steps take",
    "model_bytes": "a run says how large its model is",
    "layers": "a run says what its model is made of",
    "step_factors": "a run says how its steps vary",
    "workload": "a run says what is trained",
    "optimizer": "a run says which optimizer it had",
}
_ALIKE: Final = ("workload", "batch_size", "model_bytes")
_MOST_RUNS: Final = 2


def planned_from_runs(
    names: Sequence[str | Path],
    target: str | None,
    fields: Mapping[str, Any],
    out: Path,
    *,
    problems: list[Problem],
    tell: Callable[[str], None],
) -> tuple[AskedPlan, Basis]:
    """Say what is planned and what it rests on; raises `SpecError` with all that is wrong.

    Of two runs the one with fewer workers says how long steps take, for nobody disturbed them; the
    other says all else.
    """
    runs = [StoredRun.read(find_run(str(name), out)) for name in names]
    small, large = _small_and_large(runs)
    known = fields_of(large)
    found = [*problems, *_problems(runs, known, fields)]
    rest = {key: value for key, value in fields.items() if key not in _OF_THE_RUN}
    figures = {"batch": large.result.batch_size, "model_bytes": large.result.model_bytes or 1}
    try:
        asked_for = asked({**known, **figures, "rows_per_s": 1.0, **rest})
        given = asked_for.scenario.costs
        basis = _basis(small, large, target, given, None)
    except SpecError as error:
        raise SpecError([*found, *error.problems]) from error
    if basis.is_script:
        found += strategy_problems(asked_for.scenario, is_script=True)
    if found:
        raise SpecError(found)
    if given is None:
        basis = _basis(small, large, target, None, measured_costs(optimizer_of(large), tell))
    note = "" if {"link", "links"} & fields.keys() else link_note(large)
    return asked_for, dataclasses.replace(basis, notes=(*basis.notes, *filter(None, [note])))


def measured_costs(optimizer: Optimizer | None, tell: Callable[[str], None]) -> Costs:
    """Measure what messages and updates cost on this machine."""
    from paceline.planning.handling import handling_costs
    from paceline.training.optim import Sgd

    tell("measuring what messages and updates cost here")
    return handling_costs(optimizer or Sgd(lr=0.01))


def _small_and_large(runs: Sequence[StoredRun]) -> tuple[StoredRun, StoredRun]:
    ordered = sorted(runs, key=lambda run: run.result.num_workers)
    return ordered[0], ordered[-1]


def _problems(
    runs: Sequence[StoredRun], known: Mapping[str, Any], fields: Mapping[str, Any]
) -> Iterator[Problem]:
    """Say which fields a run gives itself, what is missing, and which runs do not go together."""
    for key, reason in _OF_THE_RUN.items():
        if key in fields:
            yield Problem(key, fields[key], reason)
    if "link" not in known and "link" not in fields:
        yield Problem("link", None, "the run measured no links: it must be given")
    if len(runs) > _MOST_RUNS:
        said = ", ".join(run.name for run in runs)
        yield Problem("--from", said, "one run, or two: of fewer workers, and of more")
    first, *others = runs
    for other in others:
        for key in _ALIKE:
            mine, its = getattr(first.result, key), getattr(other.result, key)
            if mine != its:
                reason = f"another {key} than {first.name}: {its!r}, not {mine!r}"
                yield Problem("--from", other.name, reason)


def _basis(
    small: StoredRun,
    large: StoredRun,
    target: str | None,
    costs: Costs | None,
    measured: Costs | None,
) -> Basis:
    basis = basis_of_run(large, target, costs, measured)
    if small is large:
        return basis
    note = f"steps are those of {small.name}; links and what servers took, of {large.name}"
    return dataclasses.replace(
        basis,
        title=f"{large.result.workload}, measured in {small.name} and {large.name}",
        step=basis_of_run(small, None, costs).step,
        notes=(*basis.notes, note),
    )
