"""What somebody asks to be planned: a workload or figures, and a scenario; all checked at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from paceline.compute import rates
from paceline.description import build
from paceline.errors import Problem, SpecError, WorkloadError
from paceline.planning.candidates import count_problems, strategy_problems
from paceline.planning.plan import Basis
from paceline.planning.scenario import LayerEntry, Scenario
from paceline.planning.steps import step_by_figures, step_of
from paceline.spec import RunSpec

_OF_THE_SPEC: Final = ("workload", "device", "optimizer", "dtype", "threads", "seed")


@final
@dataclass(frozen=True, kw_only=True)
class AskedPlan:
    """A scenario that is right in itself, and the spec of one worker where there is a workload."""

    scenario: Scenario
    spec: RunSpec | None = None
    has_rows: bool = False
    """Whether its model has a table of which a batch touches few rows."""

    @property
    def is_script(self) -> bool:
        """Whether what is trained is known only while it runs."""
        return self.spec is not None and self.spec.workload.is_script

    @property
    def needs_calibration(self) -> bool:
        given = self.scenario.rows_per_s is not None
        return self.spec is not None and not self.spec.is_replayed and not given

    @property
    def is_run_first(self) -> bool:
        """Whether some steps of it must be made to see what a step takes, and what it moves."""
        return self.is_script or self.has_rows


def asked(table: Mapping[str, Any]) -> AskedPlan:
    """Check all of it; raises `SpecError` with everything that is wrong."""
    of_spec = {key: value for key, value in table.items() if key in _OF_THE_SPEC}
    rest = {key: value for key, value in table.items() if key not in _OF_THE_SPEC}
    problems: list[Problem] = []
    scenario = _scenario(rest, problems)
    spec = _spec(of_spec, rest.get("batch"), problems) if "workload" in of_spec else None
    if "workload" not in of_spec:
        problems += _figure_problems(rest, of_spec)
    named = scenario or _only_strategies(rest)
    is_script = spec is not None and spec.workload.is_script
    wrong = [] if named is None else list(strategy_problems(named, is_script=is_script))
    problems += wrong
    if scenario is not None and not wrong:
        problems += count_problems(scenario)
    has_rows = spec is not None and _has_rows(spec, problems)
    if spec is not None:
        problems += _model_problems(spec, scenario, has_rows=has_rows)
    if problems:
        raise SpecError(problems)
    assert scenario is not None
    return AskedPlan(scenario=scenario, spec=spec, has_rows=has_rows)


def _scenario(table: Mapping[str, Any], problems: list[Problem]) -> Scenario | None:
    values = dict(table)
    layers = values.get("layers")
    try:
        if isinstance(layers, list):
            values["layers"] = tuple(_layer(each) for each in layers)
        return build(Scenario, values, "")
    except SpecError as error:
        problems += error.problems
    return None


def _only_strategies(table: Mapping[str, Any]) -> Scenario | None:
    """Where something else is wrong, strategies are looked at all the same."""
    chosen = {key: table[key] for key in ("strategies", "strategy") if key in table}
    return _scenario(chosen, [])


def _layer(table: object) -> LayerEntry:
    if not isinstance(table, Mapping):
        raise SpecError([Problem("layers", table, "not a table")])
    return build(LayerEntry, table, "layers")


def _spec(table: dict[str, Any], batch: object, problems: list[Problem]) -> RunSpec | None:
    table = dict(table)
    device = str(table.get("device", rates.REAL))
    if device.endswith(".toml") and not rates.is_replayed(device):
        table["device"] = f"{rates.PREFIX}{device}"
    if batch is not None:
        table["batch"] = batch
    try:
        return RunSpec.from_table(table)
    except SpecError as error:
        problems += error.problems
    return None


def _figure_problems(rest: Mapping[str, Any], of_spec: Mapping[str, Any]) -> list[Problem]:
    """Without a workload, figures must say what a step takes and what it moves."""
    found = [
        Problem(key, value, "needs a workload: a model given by figures has no device")
        for key, value in of_spec.items()
    ]
    wanted = ["batch"] if rest.get("layers") else ["batch", "rows_per_s", "model_bytes"]
    reason = "must be given where no workload is (or `layers` with forward_s, backward_s, bytes)"
    return found + [Problem(key, None, reason) for key in wanted if rest.get(key) is None]


def _has_rows(spec: RunSpec, problems: list[Problem]) -> bool:
    """Look whether a model has a table of rows, and whether it can be taken apart at all."""
    if spec.workload.is_script:
        return False
    from paceline.training.rows import Rows
    from paceline.workloads.anatomy import undrawn_model

    try:
        model = undrawn_model(spec.workload)
    except WorkloadError as error:
        problems.append(Problem("workload", spec.workload.name, str(error)))
        return False
    return any(isinstance(each, Rows) for each in model.modules())


def _model_problems(
    spec: RunSpec, scenario: Scenario | None, *, has_rows: bool
) -> Iterator[Problem]:
    """Say why a model cannot be calibrated, before anything is measured."""
    if has_rows and spec.is_replayed:
        yield Problem("device", spec.device, "sparse models cannot be replayed; use --device cpu")
    if spec.workload.is_script or has_rows:
        what = "a sparse model" if has_rows else "a script"
        rate = None if scenario is None else scenario.rows_per_s
        if rate is not None:
            yield Problem("rows_per_s", rate, f"{what} is run to see how long its steps take")
    elif not isinstance(spec.batch, int) and (scenario is None or scenario.batch is None):
        yield Problem("batch", spec.batch, "a plan needs a number of rows per worker per step")


def basis_of(asked_for: AskedPlan, measured: rates.Rates | None, basis_costs: Any) -> Basis:
    """Say what the plan rests on; `measured` is a calibration, where one was needed."""
    scenario, spec = asked_for.scenario, asked_for.spec
    if spec is None:
        assert scenario.batch is not None
        return Basis(
            title="a model given by figures",
            step=step_by_figures(scenario),
            batch=scenario.batch,
            costs=basis_costs,
        )
    assert isinstance(spec.batch, int)
    found, source = _rates(asked_for, measured)
    step = step_of(spec, found, spec.batch)
    if scenario.step_factors:
        step = replace(step, factors=scenario.step_factors)
    assert spec.optimizer is not None
    return Basis(
        title=f"{spec.workload.name}, {source}",
        step=step,
        batch=spec.batch,
        costs=basis_costs,
        num_states=spec.optimizer.num_states,
        notes=(found.note,) if found.note else (),
    )


def _rates(asked_for: AskedPlan, measured: rates.Rates | None) -> tuple[rates.Rates, str]:
    spec, scenario = asked_for.spec, asked_for.scenario
    assert spec is not None
    if scenario.rows_per_s is not None:
        assert isinstance(spec.batch, int)
        given = rates.Rates(batch=spec.batch, rows_per_s=scenario.rows_per_s)
        return given, f"{scenario.rows_per_s:g} rows/s per worker"
    if measured is not None:
        return measured, "calibrated on this machine"
    name = Path(spec.device.removeprefix(rates.PREFIX)).name.removesuffix(".toml")
    return spec.rates(), f"rates of {name}"
