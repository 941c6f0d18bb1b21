"""Run folders with figures that a test chooses, written as a run writes them."""

import json
from pathlib import Path

import polars

from paceline.outcome.results import NodeUsage, Result, ServerTotals, Staleness, WorkerTotals
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun

SPEC = """num_workers = {workers}
batch = {batch}
epochs = 3
seed = 0
{more}
[workload]
name = "{workload}"
{fields_of_workload}

[strategy]
name = "{strategy}"

[optimizer]
name = "sgd"
lr = {lr}
"""


def made(
    folder: Path,
    strategy: str = "ring",
    *,
    seconds: float = 10.0,
    num_workers: int = 3,
    batch: int = 75,
    lr: float = 0.01,
    rows: int = 30_000,
    status: str = "finished",
    accuracy: float | None = 0.9,
    num_rows: int = 40,
    num_nodes: int = 1,
    more: str = "",
    workload: str = "logistic-mnist",
    fields_of_workload: str = "",
    metrics: dict[str, tuple[float, float]] | None = None,
    **fields,
) -> StoredRun:
    """Write a run that took so many seconds, and read it back as a report does.

    `metrics` go evenly from their first value to their last, in the place of accuracy and loss.
    """
    if metrics is None and accuracy is not None:
        metrics = {"accuracy": (accuracy / 10, accuracy), "loss": (1.0, 1.0)}
    metrics = metrics or {}
    number = len(list(folder.iterdir())) if folder.exists() else 0
    run = RunDir(folder / f"20261116-0000{number:02}-logistic-mnist-{strategy}-{number:06x}")
    run.path.mkdir(parents=True)
    run.spec.write_text(
        SPEC.format(
            workers=num_workers,
            batch=batch,
            strategy=strategy,
            lr=lr,
            more=more,
            workload=workload,
            fields_of_workload=fields_of_workload,
        )
    )
    run.environment.write_text(json.dumps({"hostname": "a", "versions": {"python": "3"}}))
    steps = rows // batch // num_workers
    known = {
        "run": str(run.path),
        "status": status,
        "reason": None if status == "finished" else "worker1: it broke",
        "workload": workload,
        "strategy": strategy,
        "cluster": "local",
        "meaning": "as a test wants it",
        "num_workers": num_workers,
        "batch_size": batch,
        "seed": 0,
        "global_steps": steps,
        "worker_steps": steps * num_workers,
        "samples": rows,
        "train_s": seconds,
        "steps_per_s": steps / seconds,
        "worker_steps_per_s": steps * num_workers / seconds,
        "samples_per_s": rows / seconds,
        "final_loss": 0.5,
        "test_accuracy": metrics.get("accuracy", (None, None))[1],
        "test_metrics": {name: last for name, (_, last) in metrics.items()},
        "nodes": tuple(
            NodeUsage(name=f"node{index}", seats=(f"worker{index}",)) for index in range(num_nodes)
        ),
        "workers": tuple(_worker(index, steps, rows, seconds) for index in range(num_workers)),
    }
    result = Result(**(known | fields))
    if num_rows:
        _write_rows(run, result, num_rows)
        _write_nodes(run, seconds, num_nodes)
    if metrics:
        _write_evaluations(run, steps, seconds, metrics)
    run.result.write_text(json.dumps(result.table()))
    return StoredRun.read(run)


def stale() -> dict:
    """What a parameter server adds to a result."""
    server = ServerTotals(
        name="server0", updates=9, dropped=0, refused=0, cpu_s=1.0, apply_s=0.5, queue_s=0.1
    )
    histogram = {"0": 5, "1": 3, "2": 1}
    return {
        "servers": (server,),
        "staleness": Staleness(mean=0.6, p50=0, p99=2, max=2, histogram=histogram),
    }


def _worker(index: int, steps: int, rows: int, seconds: float) -> WorkerTotals:
    return WorkerTotals(
        name=f"worker{index}",
        worker_steps=steps,
        samples=rows // 3,
        train_s=seconds,
        load_s=0.1 * seconds,
        compute_s=0.5 * seconds,
        exchange_s=0.3 * seconds,
        sent_bytes=1_000_000,
        received_bytes=2_000_000,
    )


def _write_rows(run: RunDir, result: Result, count: int) -> None:
    workers, steps, rows = result.num_workers, result.global_steps, result.samples
    parts = [(index + 1) / count for index in range(count)]
    frame = [
        {
            "seat": f"worker{worker}",
            "time_s": part * result.train_s,
            "worker_steps": round(part * steps),
            "samples": round(part * rows / workers),
            "global_steps": round(part * steps),
            "count": max(1, steps // count),
            "load_s": 0.01,
            "compute_s": 0.05,
            "exchange_s": 0.03,
            "sent_bytes": round(part * result.train_s * 1e6),
            "received_bytes": round(part * result.train_s * 2e6),
            "loss_mean": 2.3 - 1.8 * part,
            "loss_min": 0.1,
            "loss_max": 2.5,
            "loss_variance": 0.01,
        }
        for worker in range(workers)
        for part in parts
    ]
    polars.DataFrame(frame).write_parquet(run.steps)


def _write_nodes(run: RunDir, seconds: float, nodes: int) -> None:
    frame = [
        {
            "node": f"node{node}",
            "time_s": seconds * part / 10,
            "phase": "training",
            "cpu_percent": 90.0 + node,
            "memory_bytes": 200_000_000,
            "disk_read_bytes": 0,
            "disk_written_bytes": 1000 * part,
            # On one node there is no link to count at.
            "net_sent_bytes": 1_000_000 * part if nodes > 1 else None,
            "net_received_bytes": 2_000_000 * part if nodes > 1 else None,
            "packets_sent": 700 * part if nodes > 1 else None,
            "packets_received": 1400 * part if nodes > 1 else None,
        }
        for node in range(nodes)
        for part in range(1, 11)
    ]
    polars.DataFrame(frame, infer_schema_length=None).write_parquet(run.nodes)


def _write_evaluations(
    run: RunDir, steps: int, seconds: float, metrics: dict[str, tuple[float, float]]
) -> None:
    """Ten evaluations, the last of them at the end."""
    frame = [
        {
            "time_s": seconds * part / 10,
            "progress": steps * part // 10,
            **{
                name: first + (last - first) * (part - 1) / 9
                for name, (first, last) in metrics.items()
            },
        }
        for part in range(1, 11)
    ]
    polars.DataFrame(frame).write_parquet(run.evaluations)
