"""`paceline.plan`: which strategy on how many machines, by arithmetic, with its own error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from paceline.errors import Problem, SpecError
from paceline.planning.advice import recommended, sentences
from paceline.planning.asking import AskedPlan, asked, basis_of
from paceline.planning.checked import Checked, checked
from paceline.planning.plan import Basis, Plan, PlanRow, make_plan
from paceline.settings import flat, merged, nested
from paceline.store.runs import DEFAULT_OUT
from paceline.workloads.base import Workload

if TYPE_CHECKING:
    from paceline.arithmetic.costs import Costs
    from paceline.compute.rates import Rates
    from paceline.planning.emulation import Verified

Tell = Callable[[str], None]


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
            "checked": {
                **self.checked.values(),
                "sentence": self.checked.sentence,
                "scope": self.checked.scope,
            },
            "verified": [dataclasses.asdict(each) for each in self.verified],
        }

    def __str__(self) -> str:
        said = [*self.sentences, self.checked.sentence, self.checked.scope]
        return "\n".join(filter(None, said))


def plan(
    what: str | Path | Workload | None = None,
    /,
    *,
    from_run: str | Path | Sequence[str | Path] | None = None,
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
    workload, looked for below `out`, and `target` how many rows its curve took; of two runs the one
    with fewer workers gives the steps, the other the rest. `verify` runs three of them emulated
    here: what fails is told beside the plan. `to` is a folder for a page. `tell` is told what is
    being measured.

    Raises `SpecError` with everything that is wrong before anything is measured.
    """
    if from_run:
        from paceline.api.planned_from_runs import planned_from_runs

        names = [from_run] if isinstance(from_run, str | Path) else list(from_run)
        extra = [] if what is None else [_no_workload(names)]
        extra += [_NOT_OF_A_RUN] * verify
        asked_for, basis = planned_from_runs(
            names, target, fields, Path(out), problems=extra, tell=tell
        )
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


def _no_workload(names: Sequence[str | Path]) -> Problem:
    said = ", ".join(map(str, names))
    return Problem("--from", said, "a run says what is trained: give no workload")


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
    if verify and asked_for.has_rows:
        found.append(Problem("--verify", True, "sparse models cannot be replayed"))
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
    if asked_for.is_run_first:
        return _from_steps(asked_for, tell)
    measured = _calibrated(asked_for, tell) if asked_for.needs_calibration else None
    return basis_of(asked_for, measured, _costs(asked_for, tell))


def _from_steps(asked_for: AskedPlan, tell: Tell) -> Basis:
    from paceline.api.trial_steps import basis_of_rows, basis_of_script

    spec, costs = asked_for.spec, _costs(asked_for, tell)
    assert spec is not None
    if asked_for.is_script:
        return basis_of_script(spec, costs, tell)
    given = asked_for.scenario.costs
    return basis_of_rows(spec, given, costs if given is None else None, tell)


def _calibrated(asked_for: AskedPlan, tell: Tell) -> Rates:
    from paceline.planning.calibration import calibrate

    assert asked_for.spec is not None
    tell(f"calibrating {asked_for.spec.workload.name} on this machine")
    return calibrate(asked_for.spec, 20, lambda *_: None)


def _costs(asked_for: AskedPlan, tell: Tell) -> Costs:
    """What handling messages costs: as given, or as measured here."""
    from paceline.api.planned_from_runs import measured_costs
    from paceline.arithmetic.costs import NO_COSTS

    if asked_for.scenario.costs is not None:
        return asked_for.scenario.costs
    if asked_for.spec is None:  # somebody else's machines: nothing here says what theirs take
        return NO_COSTS
    return measured_costs(asked_for.spec.optimizer, tell)


def _verified(made: Plan, asked_for: AskedPlan, tell: Tell) -> tuple[Verified, ...]:
    from paceline.api.verifying import verified_rows

    return verified_rows(made, asked_for, tell)


def _written(planned: Planned, folder: Path) -> Planned:
    from paceline.reporting.plan_page import plan_page
    from paceline.reporting.writing import write

    page = plan_page(planned.plan, planned.sentences, planned.checked, planned.verified)
    return dataclasses.replace(planned, path=write(page, folder))
