"""What a stored run says of its steps, its links and its course: for other numbers of machines."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.rows import RowTraffic
from paceline.arithmetic.spread import mean, relative
from paceline.arithmetic.step import ComputeStep, even_step
from paceline.compute.rates import Rates
from paceline.errors import Problem, SpecError
from paceline.outcome.results import OPTIMIZER_STATES
from paceline.planning.plan import Basis
from paceline.planning.steps import step_of
from paceline.spec import RunSpec
from paceline.training.metrics import Target
from paceline.verdict.handling import costs_of, latency_of
from paceline.workloads import WORKLOADS

if TYPE_CHECKING:
    from paceline.outcome.results import Result, WorkerTotals
    from paceline.store.stored import StoredRun
    from paceline.training.optim import Optimizer

_MOST_FACTORS: Final = 200
# A worker that computes so much longer than the others has a slower machine.
_SLOWER: Final = 1.1
# Links are alike where none is further than this from the middle one.
_OTHER_LINK: Final = 0.1
_LEAST_FACTOR: Final = 0.1
"""No step is taken to be quicker than this part of the typical one."""
_FLOAT_BYTES: Final = 4


def fields_of(run: StoredRun) -> dict[str, Any]:
    """Give the fields of a scenario that a run has measured: link, latency, slower nodes."""
    result, found = run.result, dict[str, Any]()
    known = _link_rates(result)
    if known:
        found["link"] = median(known)
    asked = run.spec.get("cluster", {}).get("latency_s")  # which older results do not say
    latency = latency_of(result) or (float(asked) if isinstance(asked, int | float) else 0.0)
    if latency > 0:
        found["latency"] = latency
    return found


def _link_rates(result: Result) -> list[float]:
    rates = [each.link_sent_bits_per_s or each.link_bits_per_s for each in result.nodes]
    return [each for each in rates if each]


def link_note(run: StoredRun) -> str:
    """Say that the link which `fields_of` gives is not that of all nodes, where it is not."""
    rates = _link_rates(run.result)
    middle = median(rates) if rates else 0.0
    if all(abs(each - middle) <= _OTHER_LINK * middle for each in rates):
        return ""
    return (
        f"the run's links carried {min(rates) / 1e6:,.4g} to {max(rates) / 1e6:,.4g} Mbit/s: all "
        f"are planned as the middle one, {middle / 1e6:,.4g}; --link gives another, and "
        "--set links.node1=RATE one that differs"
    )


def basis_of_run(
    run: StoredRun, target: str | None, costs: Costs | None, measured: Costs | None = None
) -> Basis:
    """Say what a plan rests on that is made from a run; raises `SpecError` where it cannot be.

    `costs` are given; `measured` are this machine's, for what the run cannot say.
    """
    result = run.result
    problems = list(_problems(result))
    goal = _target(target, problems)
    if problems:
        raise SpecError(problems)
    steps_s = [each.compute_s / each.worker_steps for each in _trained(result) if each.compute_s]
    factors = _factors(run)
    # Factors are over the typical step, and workers' times are means: they hold the slow ones too.
    step = replace(_step(run, median(steps_s) / mean(factors)), factors=factors)
    step = replace(step, fixed_s=_per_step(result, "load_s"), update_s=_per_step(result, "apply_s"))
    samples = None if goal is None else _samples_to(run, goal)
    return Basis(
        title=f"{result.workload}, measured in {run.name}",
        step=step,
        batch=result.batch_size,
        costs=costs or _completed(costs_of(result), measured),
        num_states=_num_states(run),
        notes=tuple(_notes(result, goal, known_costs=bool(costs), measured=bool(measured))),
        samples=samples,
        is_script=is_of_script(run),
    )


def is_of_script(run: StoredRun) -> bool:
    """Whether a run trained a script of the user's own."""
    return run.result.workload.endswith(".py")


def _completed(of_run: Costs | None, measured: Costs | None) -> Costs:
    """Take what a run's servers took, and what this machine takes for the rest."""
    if of_run is None or measured is None:
        return of_run or measured or NO_COSTS
    return replace(
        measured, add_s_per_byte=of_run.add_s_per_byte, apply_s_per_byte=of_run.apply_s_per_byte
    )


def _trained(result: Result) -> list[WorkerTotals]:
    return [each for each in result.workers if each.worker_steps and each.compute_s]


def _problems(result: Result) -> list[Problem]:
    found = []
    if result.status != "finished":
        found.append(Problem("--from", result.run, f"the run has not finished: {result.status}"))
    elif not _trained(result) or not result.model_bytes:
        found.append(Problem("--from", result.run, "the run kept no times of its steps"))
    return found


def _target(text: str | None, problems: list[Problem]) -> Target | None:
    if text is None:
        return None
    try:
        return Target.parse(text)
    except ValueError as error:
        problems.append(Problem("--target", text, str(error)))
    return None


def _step(run: StoredRun, compute_s: float) -> ComputeStep:
    """Take the workload's layers where it is one of ours: what a run names is not imported."""
    result = run.result
    assert result.model_bytes is not None
    if result.touched_rows is not None:
        rows = RowTraffic(
            num_rows=result.touched_rows,
            row_bytes=result.row_bytes or _FLOAT_BYTES,
            table_bytes=result.model_bytes,
        )
        return replace(even_step(compute_s, _FLOAT_BYTES), rows=rows)
    if result.workload not in WORKLOADS.entries:
        return even_step(compute_s, result.model_bytes)
    table = {"workload": run.spec["workload"], "batch": result.batch_size}
    spec = RunSpec.from_table(
        table | ({"device": result.device} if result.compute == "replayed" else {})
    )
    rates = Rates(batch=result.batch_size, rows_per_s=result.batch_size / compute_s)
    return step_of(spec, rates, result.batch_size)


def _factors(run: StoredRun) -> tuple[float, ...]:
    """How computing varied from step to step.

    A row of the records may be the mean of several steps, which varies by the root of their number
    less than they do, as long as each is slow or quick by itself.
    """
    rows = run.steps
    if rows.is_empty() or "compute_s" not in rows.columns:
        return ()
    pairs = rows.select("compute_s", "count").drop_nulls().iter_rows()
    means = [(spent / count, count) for spent, count in pairs if count > 0 and spent > 0]
    if len(means) < 2:
        return ()
    middle = median(each for each, _ in means)
    factors = relative([_one_step_s(each, count, middle) for each, count in means])
    stride = max(1, len(factors) // _MOST_FACTORS)
    return factors[stride // 2 :: stride]


def _one_step_s(mean_s: float, count: int, middle_s: float) -> float:
    """Give a step as far from the middle as the mean of so many is on average nearer to it."""
    return max(_LEAST_FACTOR * middle_s, middle_s + (mean_s - middle_s) * math.sqrt(count))


def _per_step(result: Result, part: str) -> float:
    values = [getattr(each, part) for each in _trained(result)]
    steps = [each.worker_steps for each in _trained(result)]
    known = [v / n for v, n in zip(values, steps, strict=True) if v is not None]
    return median(known) if known else 0.0


def _num_states(run: StoredRun) -> int:
    kept = [each.other.get(OPTIMIZER_STATES) for each in run.result.workers]
    counted = [each for each in kept if each is not None]
    if counted:
        return round(max(counted))
    made = optimizer_of(run)
    return 0 if made is None else made.num_states


def optimizer_of(run: StoredRun) -> Optimizer | None:
    """Build a run's optimizer where it is one of ours: what a run names is not imported."""
    from paceline.parts import build_part

    table = run.spec.get("optimizer")
    if not isinstance(table, dict) or ":" in str(table.get("name", "")):
        return None
    made: Optimizer = build_part("optimizer", {"optimizer": table})
    return made


def _samples_to(run: StoredRun, goal: Target) -> int:
    """Count the rows after which the run's own curve reached a level."""
    curve = run.evaluations
    if goal.metric not in curve.columns:
        metrics = tuple(each for each in curve.columns if each not in {"time_s", "progress"})
        raise SpecError([Problem("--target", str(goal), "the run has no such metric", metrics)])
    result = run.result
    rows_per_step = result.batch_size * (result.num_workers if result.in_step else 1)
    for progress, value in curve.select("progress", goal.metric).iter_rows():
        if value is not None and goal.is_met({goal.metric: value}):
            return int(progress * rows_per_step)
    best = curve[goal.metric].max() if goal.better == "higher" else curve[goal.metric].min()
    raise SpecError([Problem("--target", str(goal), f"the run never reached it: best {best!r}")])


def _notes(result: Result, goal: Target | None, *, known_costs: bool, measured: bool) -> list[str]:
    found = []
    if measured:
        what = "handling messages" if result.servers else "handling messages, adding and applying"
        found.append(f"what {what} costs was measured on this machine: the run does not say")
    elif not known_costs:
        found.append("what handling messages costs is not known: it is taken to be nothing")
    if result.touched_rows is not None:
        found.append(
            f"every batch is taken to touch {result.touched_rows:,.0f} rows of the table: with "
            "another batch or other data it would not"
        )
    slowest, usual = _extremes(result)
    if slowest > _SLOWER * usual:
        found.append(
            f"the run's workers computed {usual:.3g} s to {slowest:.3g} s per step: planned is "
            f"the middle one"
        )
    if goal is not None:
        found.append(
            f"rows to {goal} are those of {result.num_workers} workers of batch "
            f"{result.batch_size}: other numbers may need more"
        )
    return found


def _extremes(result: Result) -> tuple[float, float]:
    times = [(each.compute_s or 0.0) / each.worker_steps for each in _trained(result)]
    return (max(times), median(times)) if times else (0.0, 0.0)
