"""What of a study can be carried out here, and in what other way if not as it is planned."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, final

from paceline.clusters import CLUSTERS
from paceline.errors import Problem, SpecError
from paceline.parts import build_part, cluster_of
from paceline.spec import RunSpec
from paceline.studies.grid import PlannedRun
from paceline.studies.keys import key_of

EMULATED: Final = "emulated"
ON_ONE_NODE: Final = "on `local`, where all seats share one node"
_FALLBACK: Final = {"cluster.name": "local"}


@final
@dataclass(frozen=True, kw_only=True)
class SettledRun:
    """A planned run and its spec; without one, why it cannot be carried out here."""

    planned: PlannedRun
    spec: RunSpec | None
    problem: str = ""
    wrong: tuple[Problem, ...] = ()
    """What is wrong with its spec."""
    note: str = ""
    """In what it is not as it was planned."""

    @property
    def key(self) -> str | None:
        return None if self.spec is None else key_of(self.spec)


def settle(plans: Sequence[PlannedRun]) -> list[SettledRun]:
    """Make specs of planned runs, with a cluster that is here.

    Raises `SpecError` if none can be made because all are described wrongly.
    """
    runs = [_settled(each) for each in plans]
    wrong = {str(problem): problem for each in runs for problem in each.wrong}
    if wrong and all(each.spec is None for each in runs):
        raise SpecError(wrong.values())
    return runs


def settle_by(plans: Sequence[PlannedRun], finished: Container[str | None]) -> list[SettledRun]:
    """Make the specs by which runs are found that are finished, wherever that was.

    A study may have been carried out where there is an emulated cluster, or where there is none.
    """
    return [_found(each, finished) or _settled(each) for each in plans]


@cache
def missing_emulation() -> str | None:
    """Say why there is no emulated cluster here; None if there is one. Tried out once."""
    try:
        CLUSTERS.build({"name": EMULATED}).verify()
    except SpecError as error:
        return error.problems[0].reason
    return None


def _on_few_nodes(table: dict[str, Any]) -> dict[str, Any]:
    """Leave out machines that a run has no seat for: a study has runs of one worker, and of few."""
    cluster, workers = cluster_of(table), table.get("num_workers", 1)
    if not cluster.is_elsewhere:
        return table
    strategy = build_part("strategy", {"strategy": {}, **table})
    needed = workers + (strategy.num_servers if strategy.servers_apart else 0)
    kept = dict(table["cluster"])
    if isinstance(kept.get("hosts"), list):
        kept["hosts"] = kept["hosts"][:needed]
    elif not isinstance(kept.get("hosts"), Mapping) and hasattr(cluster, "nodes"):
        kept["nodes"] = min(cluster.nodes, needed)
    return {**table, "cluster": kept}


def _found(planned: PlannedRun, finished: Container[str | None]) -> SettledRun | None:
    for over in ({}, _FALLBACK) if planned.fields.get("cluster.name") == EMULATED else ({},):
        with contextlib.suppress(SpecError):
            table = _on_few_nodes(planned.table(over))
            run = SettledRun(planned=planned, spec=RunSpec.from_table(table))
            if run.key in finished:
                return replace(run, note=f"Carried out {ON_ONE_NODE}" if over else "")
    return None


def _settled(planned: PlannedRun) -> SettledRun:
    over, note = {}, ""
    cluster = planned.fields.get("cluster.name")
    if planned.needs not in {None, cluster}:
        problem = f"it needs the cluster `{planned.needs}`, but `{cluster}` was given"
        return SettledRun(planned=planned, spec=None, problem=problem)
    if cluster == EMULATED and (missing := missing_emulation()):
        if planned.needs == EMULATED:
            return SettledRun(planned=planned, spec=None, problem=missing)
        over, note = _FALLBACK, f"{missing}: {ON_ONE_NODE}"
    try:
        table = _on_few_nodes(planned.table(over))
        return SettledRun(planned=planned, spec=RunSpec.from_table(table), note=note)
    except SpecError as error:
        problem = "; ".join(str(each) for each in error.problems)
        return SettledRun(planned=planned, spec=None, problem=problem, wrong=error.problems)
