"""`paceline plan --verify`: the best candidates, run emulated here beside what was predicted."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paceline.api.running import run
from paceline.errors import Interrupted, PacelineError, SpecError
from paceline.planning.advice import recommended
from paceline.planning.candidates import Candidate, candidates
from paceline.planning.emulation import (
    BUDGET_BITS_PER_S,
    MOST_EMULATED,
    Verified,
    as_measured,
    dilation_of,
    emulated_spec,
    measured_steps_per_s,
    predicted_steps_per_s,
    worker_slowness,
)
from paceline.planning.plan import network_of
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

if TYPE_CHECKING:
    from paceline.planning.asking import AskedPlan
    from paceline.planning.plan import Plan
    from paceline.spec import RunSpec

_MOST_VERIFIED: Final = 3
_SECONDS: Final = 8.0
_LEAST_STEPS: Final = 12
_MOST_STEPS: Final = 60


def verified_rows(
    plan: Plan, asked_for: AskedPlan, tell: Callable[[str], None]
) -> tuple[Verified, ...]:
    """Run the recommended one, the runner-up and one more; on as many machines as can be here."""
    machines, labels = to_verify(plan)
    wanted = {each.label: each for each in candidates(plan.scenario, machines)}
    assert asked_for.spec is not None
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for label in labels:
            tell(f"emulating {label} on {machines} nodes")
            try:
                device = device_of(asked_for.spec, wanted[label], plan, Path(folder))
                found.append(_verify(wanted[label], plan, asked_for.spec, device, folder))
            except Interrupted:
                found.append(_not_verified(plan, machines, label, "stopped by the user"))
                break
            except (PacelineError, OSError) as error:
                # The plan was made before, and is worth having without it.
                found.append(_not_verified(plan, machines, label, _in_a_line(error)))
        return tuple(found)


def _not_verified(plan: Plan, machines: int, label: str, why: str) -> Verified:
    (row,) = (each for each in plan.at(machines) if each.label == label)
    return Verified(label=label, machines=machines, predicted_per_s=row.samples_per_s, failed=why)


def _in_a_line(error: Exception) -> str:
    """Say why; a refusal names its fields, each of which would be a line."""
    if isinstance(error, SpecError):
        return "; ".join(map(str, error.problems))
    return " ".join(str(error).split())


def to_verify(plan: Plan) -> tuple[int, list[str]]:
    """Say on how many machines, and which: those in step first, as they are recommended.

    Where the recommended number is none that can be emulated, it is the largest that can.
    """
    chosen = recommended(plan)
    possible = [row.machines for row in plan.rows if 1 < row.machines <= MOST_EMULATED]
    machines = chosen.machines if chosen.machines in possible else max(possible, default=0)
    rows = sorted(plan.at(machines), key=lambda row: (row != chosen, not row.in_step))
    return machines, [row.label for row in rows[:_MOST_VERIFIED]]


def device_of(spec: RunSpec, candidate: Candidate, plan: Plan, folder: Path) -> str:
    """Give a device that replays the step that was planned with, stragglers and all."""
    slowness, factors = worker_slowness(candidate, plan.scenario), plan.basis.step.factors
    if spec.is_replayed and not factors and not slowness:
        return spec.device
    import tomli_w

    from paceline.planning.calibration import file_table
    from paceline.planning.steps import rates_of

    known = spec.rates() if spec.is_replayed else None
    rates = dataclasses.replace(
        known or rates_of(spec, plan.basis.step, plan.basis.batch),
        step_factors=factors,
        varies=bool(factors),
        worker_factors=slowness,
    )
    path = folder / "planned.rates.toml"
    table = file_table("planned", spec.workload.name, rates, "paceline plan")
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return f"replay:{path}"


def _verify(candidate: Candidate, plan: Plan, spec: RunSpec, device: str, folder: str) -> Verified:
    scenario, basis = plan.scenario, plan.basis
    dilation = dilation_of(candidate, scenario, basis, BUDGET_BITS_PER_S)
    slowness = scenario.slowness(candidate.num_nodes)
    predict = partial(
        predicted_steps_per_s,
        candidate,
        basis.step,
        costs=basis.costs,
        dilation=dilation,
        slowness=slowness,
    )
    predicted = predict(network_of(scenario))
    cycle_s = dilation * candidate.num_workers / predicted
    steps = max(_LEAST_STEPS, min(_MOST_STEPS, round(_SECONDS / cycle_s)))
    emulated = emulated_spec(
        spec,
        candidate,
        scenario,
        device=device,
        dilation=dilation,
        worker_steps=steps,
        step_s=cycle_s / dilation,
    )
    result = run(emulated, out=folder, progress=False)
    stored = StoredRun.read(RunDir(Path(result.run)))
    network = as_measured(network_of(scenario), result)
    predicted = predict(network)
    return Verified(
        label=candidate.label,
        machines=candidate.num_machines,
        predicted_per_s=basis.batch * predicted,
        measured_per_s=basis.batch * measured_steps_per_s(stored),
        dilation=dilation,
        host_limited=result.host_limited,
    )
