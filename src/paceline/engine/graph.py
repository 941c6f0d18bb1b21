"""How data flows through a worker's model, noted once for TensorBoard."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import torch

from paceline.workloads.anatomy import dissect

if TYPE_CHECKING:
    from paceline.engine.worker import Worker


def draw_graph(worker: Worker) -> None:
    """Note how data flows through the model; one that cannot be drawn is no failure."""
    try:
        row = worker.train_data.take(torch.zeros(1, dtype=torch.int64))
        anatomy = dissect(worker.replica.model, worker.spec.workload.loss, row)
        rows = "".join(json.dumps(asdict(node)) + "\n" for node in anatomy.nodes)
        worker.sink.put("graph", lambda path: path.write_text(rows))
    except Exception as error:  # noqa: BLE001 - the user's model, seen in an unusual way
        print(f"no graph: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
