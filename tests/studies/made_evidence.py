"""Evidence of every run that a study plans, made up: as its tables, figures and claims read it."""

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import polars

from paceline.description import parse_rate
from paceline.outcome.buckets import BucketTotals
from paceline.outcome.results import NodeUsage
from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence
from paceline.studies.grid import Grid, PlannedRun, Variant
from tests.made_runs import made, stale

MODEL_BYTES = 98 * 2**20
ALONE_S = 8.0


def made_evidence(
    folder: Path, study: str, variant: Variant = "quick", groups: Collection[str] = ()
) -> Evidence:
    """Make all runs of a study's variant, or those of some groups.

    Those of one spec are as fast as each other.
    """
    plans = [each for each in Grid.read(study).plan(variant) if not groups or each.group in groups]
    return Evidence(plans=plans, runs={plan.name: _made(folder, plan) for plan in plans})


def part_of(evidence: Evidence, names: set[str]) -> Evidence:
    """Give what a study has to go by when only these of its runs are finished."""
    runs = {name: run for name, run in evidence.runs.items() if name in names}
    return replace(evidence, runs=runs)


def changed(evidence: Evidence, change: Callable[[PlannedRun, StoredRun], StoredRun]) -> Evidence:
    """Give the same evidence with each run as `change` makes it."""
    plans = {each.name: each for each in evidence.plans}
    runs = {name: change(plans[name], run) for name, run in evidence.runs.items()}
    return replace(evidence, runs=runs)


def _made(folder: Path, plan: PlannedRun) -> StoredRun:
    fields = plan.fields
    strategy = fields["strategy.name"]
    count = fields.get("num_workers", 1)
    has_server = strategy.startswith("ps-")
    batch = fields.get("batch", 75)
    rows = 40 * batch * count
    run = made(
        folder,
        strategy,
        num_workers=count,
        batch=batch,
        rows=rows,
        seconds=ALONE_S * (1 + 0.5 * has_server + 0.05 * count),
        workload=fields["workload.name"],
        num_nodes=count + (fields.get("strategy.placement") == "separate"),
        more=_more(plan),
        test_loss=0.4,
        test_metrics={"larger_class": 0.7},
        data="generated rows",
        **(stale() if has_server else {}),
    )
    if fields.get("record.profile"):
        run.folder.profile.mkdir()
        operators = [{"operator": "aten::mm", "ms_per_step": 2.0}]
        (run.folder.profile / "worker0.operators.json").write_text(json.dumps(operators))
    run = replace(run, result=_with_usage(run, has_server=has_server))
    return _replayed(run) if fields.get("device", "cpu") != "cpu" else run


def _replayed(run: StoredRun) -> StoredRun:
    """Say of every node that it has a worker whose device computed for a third of the time."""
    run.nodes.with_columns(device_busy_percent=polars.lit(33.0)).write_parquet(run.folder.nodes)
    nodes = tuple(replace(each, device_busy_percent=33.0) for each in run.result.nodes)
    return replace(run, result=replace(run.result, nodes=nodes))


def _more(plan: PlannedRun) -> str:
    """What the spec says of the cluster, if it has links."""
    link = plan.fields.get("cluster.link")
    if plan.fields["cluster.name"] != "emulated" or link is None:
        return ""
    return f"[cluster]\nname = 'emulated'\nlink = {float(str(parse_rate(link)))}\n"


def _with_usage(run: StoredRun, *, has_server: bool):
    result = run.result
    bucket = BucketTotals(num_bytes=MODEL_BYTES, start_s=0.0, run_s=1.0, wait_s=0.5)
    workers = tuple(replace(each, buckets=(bucket,)) for each in result.workers)
    names = [each.name for each in result.workers]
    nodes = []
    for index, each in enumerate(result.nodes):
        seats = tuple(names[index : index + 1])
        if has_server and index == (len(names) if len(result.nodes) > len(names) else 0):
            seats = (*seats, "server0")
        nodes.append(_usage(each.name, seats, index))
    return replace(result, workers=workers, nodes=tuple(nodes))


def _usage(name: str, seats: tuple[str, ...], index: int) -> NodeUsage:
    return NodeUsage(
        name=name,
        seats=seats,
        cpu_percent_mean=90.0 - index,
        cpu_node_percent_mean=45.0,
        cpu_node_percent_peak=60.0,
        memory_mean_bytes=190_000_000,
        memory_peak_bytes=200_000_000,
        net_sent_bytes=10_000_000,
        net_received_bytes=20_000_000,
        disk_read_bytes=1000,
        disk_written_bytes=2000,
    )
