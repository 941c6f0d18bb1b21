"""The parts of a spec: each built from its name, its table, or a description made in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, final

from paceline.catalogue import Catalogue
from paceline.clusters import CLUSTERS
from paceline.clusters.base import Cluster
from paceline.description import Description, Positive, build
from paceline.errors import Problem, SpecError
from paceline.faults import Fault
from paceline.strategies import STRATEGIES
from paceline.strategies.base import Strategy
from paceline.strategies.local import Single
from paceline.strategies.own import Own
from paceline.training.metrics import Target
from paceline.training.optim import OPTIMIZERS, Sgd
from paceline.training.schedules import SCHEDULES
from paceline.workloads import WORKLOADS
from paceline.workloads.base import FUNCTIONS, Workload
from paceline.workloads.script import Script, script_problems

PARTS: Final[dict[str, Catalogue]] = {
    "workload": WORKLOADS,
    "strategy": STRATEGIES,
    "cluster": CLUSTERS,
    "optimizer": OPTIMIZERS,
}
INNER: Final[Mapping[str, Mapping[str, Catalogue]]] = {"optimizer": {"schedule": SCHEDULES}}
"""What is part of a part."""
_DEFAULT_NAMES: Final = {"strategy": "single", "cluster": "local"}


@final
class Record(Description):
    """What is written down while a run goes on."""

    loss: Literal["rows", "all"] = "rows"
    """`all` keeps the loss of every mini-batch beside the rows."""
    interval_s: Positive = 0.1
    monitor_s: Positive = 0.5
    monitor: bool = True
    steps: bool = True
    """Whether workers write rows at all; without, a result has only totals."""
    model: bool = True
    tensorboard: bool = True
    profile: bool = False
    """Whether a few steps of worker 0 and of each server run under torch's profiler."""

    @property
    def name(self) -> str:
        return "record"


@final
@dataclass(frozen=True)
class Every:
    """How often: after so many steps, or after so many seconds."""

    steps: int | None = None
    seconds: float | None = None


def code_in(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the classes of somebody's own that the table of a spec names."""
    for part in PARTS:
        value = table.get(part)
        yield from _code(value)
        if isinstance(value, Mapping):
            yield from (value[each] for each in FUNCTIONS if isinstance(value.get(each), str))
            for inner in INNER.get(part, {}):
                yield from _code(value.get(inner))


def _code(value: object) -> Iterator[str]:
    name = value.get("name") if isinstance(value, Mapping) else value
    if isinstance(name, str) and (":" in name or name.endswith(".py")):
        yield name


def cluster_of(table: Mapping[str, Any]) -> Cluster:
    """Build the cluster of a spec's table, and nothing else of it."""
    made: Cluster = build_part("cluster", {"cluster": {}, **table})
    return made


def meant(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give the strategy and the number of workers that other parts mean, where none is given."""
    strategy = values.get("strategy") or _usual_strategy(values.get("workload"))
    return {"strategy": strategy, **_workers_meant(values.get("cluster"), strategy)}


def _workers_meant(cluster: object, strategy: object) -> dict[str, int]:
    """Three nodes alone mean three workers, of a strategy that can have them."""
    if not isinstance(cluster, Cluster) or not isinstance(strategy, Strategy):
        return {}
    apart = strategy.servers_apart
    number = cluster.workers_meant(strategy.num_servers, servers_apart=apart)
    if number is None or any(strategy.group_problems(number)):
        return {}
    return {"num_workers": number}


def _usual_strategy(workload: object) -> Strategy:
    """Give the strategy of a run that names none."""
    is_own = isinstance(workload, Script) and not workload.calls_wrap
    return Own() if is_own else Single()


def script_fit(spec: Any) -> Iterator[Problem]:
    """Say what does not go together with a script, or is for scripts only, in a `RunSpec`."""
    if spec.workload.is_script:
        yield from script_problems(spec)
    elif spec.strategy.scripts == "own":
        reason = f"it is a script's own exchange, and {spec.workload.name} is no script"
        others = tuple(each for each in STRATEGIES.entries if each != spec.strategy.name)
        yield Problem("strategy", spec.strategy.name, reason, others)


def build_part(part: str, values: Mapping[str, Any]) -> Any:
    """Build one part from its table; a live description is checked, an optimizer is completed."""
    value = values[part]
    if part == "optimizer":
        return _build_optimizer(value, values.get("workload"))
    if part == "record":
        return _build_record(value)
    return _built(PARTS[part], value, _DEFAULT_NAMES.get(part))


def _built(catalogue: Catalogue, value: object, default_name: str | None = None) -> Any:
    """Build a description from its name or its table; a live one is checked."""
    if isinstance(value, Description):
        return build(type(value), value.values(), catalogue.kind)
    table = _table_of(catalogue, value)
    return catalogue.build(table if default_name is None else {"name": default_name, **table})


def _table_of(catalogue: Catalogue, value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        choices = tuple(catalogue.entries)
        raise SpecError([Problem(catalogue.kind, value, "neither a name nor a table", choices)])
    return value


def _build_record(value: object) -> Record:
    if isinstance(value, Record):
        value = value.values()
    if not isinstance(value, Mapping):
        raise SpecError([Problem("record", value, "not a table")])
    return build(Record, unnamed(value), "record")


def _build_optimizer(value: object, workload: object) -> Any:
    """Build an optimizer and, within it, its schedule."""
    make: Callable[[Mapping[str, Any]], Any]
    if not isinstance(value, Description | Mapping | str):
        from paceline.training.torch_optim import description_of

        value = description_of(value)
    if isinstance(value, Description):
        table, make = value.values(), partial(build, type(value), where="optimizer")
    else:
        own = workload.usual_optimizer() if isinstance(workload, Workload) else Sgd()
        table, make = _completed(own, _table_of(OPTIMIZERS, value)), OPTIMIZERS.build
    problems: list[Problem] = []
    try:
        if "schedule" in table:
            table["schedule"] = _built(SCHEDULES, table["schedule"], "constant")
    except SpecError as error:
        problems += error.problems
        del table["schedule"]
    try:
        made = make(table)
    except SpecError as error:
        problems += error.problems
    if problems:
        raise SpecError(problems)
    return made


def _completed(own: Description, table: Mapping[str, Any]) -> dict[str, Any]:
    """`--lr 0.1` alone keeps the rest of the workload's own optimizer, its schedule included."""
    given = own.table()
    if table.get("name", given["name"]) != given["name"]:
        return dict(table)
    for key, value in table.items():
        inner = given.get(key)
        if isinstance(inner, Description) and isinstance(value, Mapping):
            given[key] = _completed(inner, value)
        else:
            given[key] = value
    return given


def unnamed(table: Mapping[str, Any]) -> dict[str, Any]:
    """Give a table without its name."""
    return {key: value for key, value in table.items() if key != "name"}


def plain(spec: Description) -> dict[str, Any]:
    """Every field as TOML can hold it; None and no targets are left out: they are defaults."""
    table: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for key, value in unnamed(spec.table()).items():
        if isinstance(value, Description):
            parts[key] = as_toml(value)
        elif value != ():
            table[key] = as_toml(value)
    parts["record"] = unnamed(parts["record"])
    return table | parts


def as_toml(value: object) -> Any:
    """Give a value as TOML can hold it."""
    if isinstance(value, Description):
        return {key: as_toml(each) for key, each in value.table().items()}
    if isinstance(value, tuple):
        return [as_toml(each) for each in value]
    return str(value) if isinstance(value, Path | Target | Fault) else value
