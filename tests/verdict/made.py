"""Results as runs leave them, with the numbers that matter for a verdict."""

from __future__ import annotations

from typing import Any

from paceline.outcome.results import NodeUsage, Result, ServerTotals, WorkerTotals

TRAIN_S = 10.0


def worker(index: int, **fields: Any) -> WorkerTotals:
    """A worker of 100 steps; what is not given takes no time."""
    known = {
        "worker_steps": 100,
        "samples": 800,
        "train_s": TRAIN_S,
        "load_s": 0.0,
        "compute_s": 0.0,
        "exchange_s": 0.0,
        "cpu_s": 1.0,
        "ready_s": 0.0,
    }
    return WorkerTotals(name=f"worker{index}", **{**known, **fields})


def server(index: int = 0, **fields: Any) -> ServerTotals:
    known = {
        "updates": 100,
        "dropped": 0,
        "refused": 0,
        "cpu_s": 0.5,
        "apply_s": 0.1,
        "queue_s": None,
        "busy_s": 0.5,
        "ready_s": 0.0,
    }
    return ServerTotals(name=f"server{index}", **{**known, **fields})


def node(index: int, *seats: str, **fields: Any) -> NodeUsage:
    return NodeUsage(name=f"node{index}", seats=seats, **fields)


def result(*workers: WorkerTotals, **fields: Any) -> Result:
    seats = [*(each.name for each in workers), *(each.name for each in fields.get("servers", ()))]
    known = {
        "run": "runs/made",
        "status": "finished",
        "workload": "made",
        "strategy": "made",
        "cluster": "local",
        "meaning": "made for a test",
        "num_workers": len(workers),
        "batch_size": 8,
        "seed": 0,
        "train_s": TRAIN_S,
        "host_cpu_percent": 40.0,
        "model_bytes": 1_000_000,
        "nodes": (node(0, *seats),),
    }
    return Result(workers=workers, **{**known, **fields})
