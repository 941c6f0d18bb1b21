"""Which specs a comparison has: each strategy with each varied value, none twice."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from paceline.errors import Problem, SpecError
from paceline.outcome.results import Result
from paceline.parts import cluster_of
from paceline.settings import Asked
from paceline.spec import RunSpec
from paceline.store.stored import HOW_WATCHED
from paceline.strategies import STRATEGIES
from paceline.strategies.base import Strategy
from paceline.workloads.data.sources.base import Progress

DEFAULT_STRATEGIES: Final = ("single", "ps-async", "ps-sync", "ring")
DEFAULT_WORKERS: Final = 2
# What a learning rate is multiplied by to find the best: N workers in step may want N times it.
GRID: Final = (0.3, 1.0, 3.0, 10.0)
# How often accuracy is looked at, so that there is a time to each level of it.
_MOST_EVALUATIONS: Final = 20
_FEWEST_EVALUATIONS: Final = 4

Vary = Mapping[str, Sequence[Any]]
Named = str | Strategy
"""A strategy by its name, or a live one."""


def sides(
    table: Mapping[str, Any] | Asked,
    strategies: Sequence[Named] = DEFAULT_STRATEGIES,
    vary: Vary | None = None,
    progress: Progress = lambda *_: None,
) -> list[RunSpec]:
    """Make the spec of every side: each strategy with each of the varied values, none twice.

    `table` is a spec as `RunSpec.from_table` takes it; fields of its strategy go to those
    strategies that have them. A strategy that cannot have several workers gets one. All problems
    of all sides are told at once, and data and clusters are looked at, before anything starts;
    `progress` hears of data that is made first.
    """
    vary = vary or {}
    asked = table if isinstance(table, Asked) else Asked(table)
    _check(asked.table(), strategies, vary)
    tables = (
        asked.table(dict(zip(vary, values, strict=True))) for values in product(*vary.values())
    )
    every = [(varied, name) for varied in tables for name in strategies]
    made = _all_of(lambda each: RunSpec.from_table(_side(*each)), every)
    for spec in made:
        if not spec.is_replayed:
            spec.workload.prepare(progress)  # which does nothing where it is there
    made = _all_of(_evaluated, made)
    for spec in made:
        spec.cluster.verify()
    return made


def _all_of(make: Callable[[Any], RunSpec], asked: Sequence[Any]) -> list[RunSpec]:
    """Make a spec of each, none twice; raises with all problems of all."""
    made: list[RunSpec] = []
    problems: dict[str, Problem] = {}
    for each in asked:
        try:
            spec = make(each)
        except SpecError as error:
            problems |= {str(problem): problem for problem in error.problems}
        else:
            if spec not in made:
                made.append(spec)
    if problems:
        raise SpecError(problems.values())
    return made


def tunings(spec: RunSpec) -> list[RunSpec]:
    """Give a side with each learning rate of the grid."""
    assert spec.optimizer is not None
    lr = spec.optimizer.lr
    return [
        dataclasses.replace(
            spec, optimizer=dataclasses.replace(spec.optimizer, lr=float(f"{lr * factor:.6g}"))
        )
        for factor in GRID
    ]


def check_tunable(sides: Sequence[RunSpec]) -> None:
    """Refuse a comparison of which no side learns anything."""
    devices = dict.fromkeys(side.device for side in sides if side.is_replayed)
    if devices:
        reason = "a replayed device trains nothing, so no learning rate can be best"
        raise SpecError([Problem("--tune-lr", ", ".join(devices), reason)])
    scripts = dict.fromkeys(side.workload.name for side in sides if side.workload.is_script)
    if scripts:
        reason = "a script has a learning rate of its own: vary its arguments"
        raise SpecError([Problem("--tune-lr", ", ".join(scripts), reason)])


def best_tuned(results: Sequence[tuple[RunSpec, Result]]) -> RunSpec | None:
    """Choose the run that reached its target first; without a target, the one that learnt most."""
    finished = [(spec, each) for spec, each in results if each.status == "finished"]
    times = [(each.seconds_to_target, spec) for spec, each in finished]
    losses = [(_loss(each), spec) for spec, each in finished]
    for judged in (times, losses):
        known = [(value, spec) for value, spec in judged if value is not None]
        if known:
            return min(known, key=lambda each: each[0])[1]
    return None


def _loss(result: Result) -> float | None:
    return result.final_loss if result.test_loss is None else result.test_loss


def _side(table: Mapping[str, Any], strategy: Named) -> dict[str, Any]:
    """The table of one side, with as many workers as its strategy can have."""
    made = _made(strategy, _strategy_fields(table))
    cluster = cluster_of(table)
    meant = cluster.workers_meant(made.num_servers, servers_apart=made.servers_apart)
    wanted = table.get("num_workers", meant or DEFAULT_WORKERS)
    workers = _workers(made, wanted)
    return {
        **table,
        "strategy": made,
        "num_workers": workers,
        "cluster": cluster if workers == wanted else cluster.for_one(),
    }


def _made(strategy: Named, given: Mapping[str, Any]) -> Strategy:
    """Make a strategy with those of the fields given that it has; a live one has its own."""
    if isinstance(strategy, Strategy):
        return strategy
    has = _fields_of(strategy)
    chosen = {key: value for key, value in given.items() if key in has}
    made: Strategy = STRATEGIES.build({"name": strategy, **chosen})
    return made


def _workers(strategy: Strategy, wanted: Any) -> Any:
    """As many workers as were asked for; one, where a strategy cannot have more."""
    if not isinstance(wanted, int) or not any(strategy.group_problems(wanted)):
        return wanted
    return wanted if any(strategy.group_problems(1)) else 1


def _evaluated(spec: RunSpec) -> RunSpec:
    """Look at the data, and see to it that accuracy is looked at, at the same rows for everyone.

    Of a length in seconds nobody knows the steps before; replayed compute has no accuracy.
    """
    order = spec.check_data()
    if spec.eval_every is not None or spec.is_replayed or spec.seconds:
        return spec
    if spec.workload.is_script:  # it evaluates where its own code says so
        return spec
    num_rows = order.num_rows
    # Where there are no global steps, evaluations count those that each worker makes.
    is_of_all = spec.strategy.in_step or not spec.strategy.counts_steps
    rows_each = order.batch * (spec.num_workers if is_of_all else 1)
    steps = _num_steps(spec, num_rows, rows_each, is_of_all=is_of_all)
    twice_an_epoch = 2 * steps * rows_each // num_rows
    wanted = min(_MOST_EVALUATIONS, max(_FEWEST_EVALUATIONS, twice_an_epoch))
    return dataclasses.replace(spec, eval_every=max(1, math.ceil(steps / wanted)))


def _num_steps(spec: RunSpec, num_rows: int, rows_each: int, *, is_of_all: bool) -> int:
    """How many steps a run has, as evaluations count them: each one of all workers, or of one."""
    if spec.steps:
        return spec.steps
    if spec.worker_steps:
        return spec.worker_steps * (1 if is_of_all else spec.num_workers)
    return (spec.samples or (spec.epochs or 0) * num_rows) // rows_each


def _check(table: Mapping[str, Any], strategies: Sequence[Named], vary: Vary) -> None:
    """Find what is wrong with a comparison before its sides are made."""
    problems = [*_strategy_problems(table, strategies, vary)]
    in_rows = not ({"steps", "worker_steps"} & set(table))
    if "batch" in vary and not in_rows:
        reason = (
            "with a fixed number of steps, larger batches see more rows; use --epochs or --samples"
        )
        problems.append(Problem("--vary", "batch", reason))
    for key in (each for each in vary if each.partition(".")[0] in HOW_WATCHED):
        reason = "this field changes only recording; varying it compares nothing"
        problems.append(Problem("--vary", key, reason))
    if not strategies:
        problems.append(Problem("--strategies", "", "none is given", tuple(STRATEGIES.entries)))
    if problems:
        raise SpecError(problems)


def _strategy_problems(
    table: Mapping[str, Any], strategies: Sequence[Named], vary: Vary
) -> Iterator[Problem]:
    """A field that no strategy has is a mistake; one that some have goes to those."""
    varied = {key: values for key, values in vary.items() if key.startswith("strategy.")}
    given = {f"strategy.{key}": value for key, value in _strategy_fields(table).items()}
    known = {f"strategy.{each}" for name in strategies for each in _fields_of(name)}
    for key, value in (given | varied).items():
        if key not in known:
            names = (each if isinstance(each, str) else each.name for each in strategies)
            reason = f"none of {', '.join(names)} has such a field"
            yield Problem(key, value, reason, tuple(sorted(known)))


def _strategy_fields(table: Mapping[str, Any]) -> dict[str, Any]:
    given = table.get("strategy", {})
    if not isinstance(given, Mapping):
        return {}
    return {key: value for key, value in given.items() if key != "name"}


def _fields_of(strategy: Named) -> set[str]:
    if isinstance(strategy, Strategy):
        return set()
    cls, fixed = STRATEGIES.find(strategy)
    return {each.name for each in dataclasses.fields(cls)} - set(fixed)  # type: ignore[arg-type]
