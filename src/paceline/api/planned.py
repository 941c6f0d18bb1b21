"""`paceline.plan`: which strategy on how many machines, by arithmetic, with its own error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from paceline.errors import Problem, SpecError
from paceline.planning.advice import recommended, sentences
from paceline.planning.asking import AskedPlan, asked, basis_of
from paceline.planning.candidates import strategy_problems
from paceline.planning.checked import Checked, checked
from paceline.planning.from_run import basis_of_run, fields_of, optimizer_of
from paceline.planning.plan import Basis, Plan, PlanRow, make_plan
from paceline.settings import flat, merged, nested
from paceline.spec import RunSpec
from paceline.store.runs import DEFAULT_OUT, RunDir, find_run
from paceline.store.stored import StoredRun
from paceline.workloads.base import Workload

if TYPE_CHECKING:
    from paceline.arithmetic.costs import Costs
    from paceline.compute.rates import Rates
    from paceline.planning.emulation import Verified
    from paceline.training.optim import Optimizer

Tell = Callable[[str], None]
_SCRIPT_STEPS: Final = 40
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


@final
@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan, what it recommends, and how far it can be trusted."""

    plan: Plan
    checked: Checked
    verified: tuple[Verified, ...] = ()
    path: Path | None = None
    """The page, where one was asked for."""

    @property
    def recommended(self) -> PlanRow:
        return recommended(self.plan)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The recommendation first, then why not more machines, then what is not known."""
        return tuple(sentences(self.plan))

    def table(self) -> dict[str, Any]:
        """Give all as plain values, for JSON."""
        return {
            **self.plan.table(),
            "recommended": dataclasses.asdict(self.recommended),
            "sentences": list(self.sentences),
            "checked": {**self.checked.values(), "sentence": self.checked.sentence},
            "verified": [dataclasses.asdict(each) for each in self.verified],
        }

    def __str__(self) -> str:
        return "\n".join([*self.sentences, self.checked.sentence])


def plan(
    what: str | Path | Workload | None = None,
    /,
    *,
    from_run: str | Path | None = None,
    target: str | None = None,
    out: Path | str = DEFAULT_OUT,
    verify: bool = False,
    to: Path | str | None = None,
    tell: Tell = lambda _: None,
    **fields: Any,
) -> Planned:
    """Predict every strategy on every number of machines, and recommend one.

    `what` is a workload, its name, `file.py:Class`, or a TOML file with the fields of a plan.
    `fields` are those of a plan, such as `machines=[1, 8], link="1gbit"`, and `device`, `batch` and
    `optimizer` of a spec. `from_run` takes step times and links from a stored run in place of a
    workload, looked for below `out`, and `target` how many rows its curve took. `verify` runs three
    of them emulated here. `to` is a folder for a page. `tell` is told what is being measured.

    Raises `SpecError` with everything that is wrong before anything is measured.
    """
    if from_run is not None:
        extra = [] if what is None else [_no_workload(from_run)]
        extra += [_NOT_OF_A_RUN] * verify
        asked_for, basis = _from_run(from_run, target, fields, Path(out), problems=extra, tell=tell)
    else:
        extra = [] if target is None else [Problem("--target", target, _NEEDS_A_RUN)]
        asked_for = _asked(what, fields, extra, verify=verify)
        basis = _basis(asked_for, tell)
    made = make_plan(asked_for.scenario, basis)
    verified = _verified(made, asked_for, tell) if verify else ()
    planned = Planned(plan=made, checked=checked(), verified=verified)
    return planned if to is None else _written(planned, Path(to))


_NEEDS_A_RUN: Final = "needs a run's learning curve: give --from RUN"
_NOT_OF_A_RUN: Final = Problem("--verify", True, "what a run trained is not emulated again")


def _no_workload(name: str | Path) -> Problem:
    return Problem("--from", str(name), "a run says what is trained: give no workload")


def _asked(
    what: str | Path | Workload | None,
    fields: Mapping[str, Any],
    problems: list[Problem],
    *,
    verify: bool,
) -> AskedPlan:
    """Check all of it; raises `SpecError` with everything that is wrong, and `problems`."""
    table = _table(what, fields)
    found = list(problems)
    if verify:
        from paceline.planning.emulation import verification_problems

        found += verification_problems(table)
    try:
        asked_for = asked(table)
    except SpecError as error:
        raise SpecError([*found, *error.problems]) from error
    if found:
        raise SpecError(found)
    return asked_for


def _table(what: str | Path | Workload | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Put fields over a file's, by the rule that all commands have."""
    from paceline.api import asking

    if what is None:
        return nested(merged(flat(fields)))
    return asking.asked(what, fields).table()


def _basis(asked_for: AskedPlan, tell: Tell) -> Basis:
    if asked_for.is_script:
        return _from_script(asked_for, tell)
    measured = _calibrated(asked_for, tell) if asked_for.needs_calibration else None
    return basis_of(asked_for, measured, _costs(asked_for, tell))


def _from_script(asked_for: AskedPlan, tell: Tell) -> Basis:
    """Run a script for a few steps, alone: what it trains is known only while it runs."""
    import tempfile

    from paceline.api.running import run

    spec = asked_for.spec
    assert spec is not None
    tell(f"running {spec.workload.name} for {_SCRIPT_STEPS} steps on this machine")
    record = {"tensorboard": False, "model": False, "monitor": False, "interval_s": 1e-6}
    with tempfile.TemporaryDirectory() as out:
        table = {**spec.values(), "record": record, "worker_steps": _SCRIPT_STEPS, "epochs": None}
        given = {key: value for key, value in table.items() if value is not None}
        result = run(RunSpec.from_table(given), out=out, progress=False)
        stored = StoredRun.read(RunDir(Path(result.run)))
        basis = basis_of_run(stored, None, _costs(asked_for, tell))
    title = f"{spec.workload.name}, {_SCRIPT_STEPS} steps on this machine"
    note = "a script exchanges gradients after its backward pass; its layers are taken to be alike"
    return dataclasses.replace(basis, title=title, notes=(*basis.notes, note))


def _calibrated(asked_for: AskedPlan, tell: Tell) -> Rates:
    from paceline.planning.calibration import calibrate

    assert asked_for.spec is not None
    tell(f"calibrating {asked_for.spec.workload.name} on this machine")
    return calibrate(asked_for.spec, 20, lambda *_: None)


def _costs(asked_for: AskedPlan, tell: Tell) -> Costs:
    """What handling messages costs: as given, or as measured here."""
    from paceline.arithmetic.costs import NO_COSTS

    if asked_for.scenario.costs is not None:
        return asked_for.scenario.costs
    if asked_for.spec is None:  # somebody else's machines: nothing here says what theirs take
        return NO_COSTS
    return _measured_costs(asked_for.spec.optimizer, tell)


def _measured_costs(optimizer: Optimizer | None, tell: Tell) -> Costs:
    from paceline.planning.handling import handling_costs
    from paceline.training.optim import Sgd

    tell("measuring what messages and updates cost here")
    return handling_costs(optimizer or Sgd(lr=0.01))


def _from_run(
    name: str | Path,
    target: str | None,
    fields: Mapping[str, Any],
    out: Path,
    *,
    problems: list[Problem],
    tell: Tell,
) -> tuple[AskedPlan, Basis]:
    run = StoredRun.read(find_run(str(name), out))
    known = fields_of(run)
    of_run = {key: value for key, value in fields.items() if key in _OF_THE_RUN}
    found = [*problems, *(Problem(key, of_run[key], _OF_THE_RUN[key]) for key in of_run)]
    if "link" not in known and "link" not in fields:
        found.append(Problem("link", None, "the run measured no links: it must be given"))
    rest = {key: value for key, value in fields.items() if key not in _OF_THE_RUN}
    figures = {"batch": run.result.batch_size, "model_bytes": run.result.model_bytes or 1}
    try:
        asked_for = asked({**known, **figures, "rows_per_s": 1.0, **rest})
        given = asked_for.scenario.costs
        basis = basis_of_run(run, target, given)
    except SpecError as error:
        raise SpecError([*found, *error.problems]) from error
    if basis.is_script:
        found += strategy_problems(asked_for.scenario, is_script=True)
    if found:
        raise SpecError(found)
    if given is not None:
        return asked_for, basis
    return asked_for, basis_of_run(run, target, None, _measured_costs(optimizer_of(run), tell))


def _verified(made: Plan, asked_for: AskedPlan, tell: Tell) -> tuple[Verified, ...]:
    from paceline.api.verifying import verified_rows

    return verified_rows(made, asked_for, tell)


def _written(planned: Planned, folder: Path) -> Planned:
    from paceline.reporting.plan_page import plan_page
    from paceline.reporting.writing import write

    page = plan_page(planned.plan, planned.sentences, planned.checked, planned.verified)
    return dataclasses.replace(planned, path=write(page, folder))
