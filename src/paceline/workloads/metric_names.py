"""Which metrics a workload has, so that a target on none of them is refused in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import torch
from torch import Tensor

from paceline.training.answers import joined_of, metrics_of, model_of
from paceline.workloads.base import Workload, rows_of

_TRIED_ROWS: Final = 16


def unknown_metrics(
    workload: Workload, wanted: Collection[str], dtype: torch.dtype
) -> tuple[tuple[str, ...], list[str]]:
    """Give the workload's metrics and those of the wanted ones that are not among them.

    What it declares is believed. Only another name is worth a model and the test rows: then its
    metrics are tried on a few. Where that fails, the run itself says why.
    """
    doubtful = [name for name in wanted if name not in _declared(workload)]
    known = _tried(workload, dtype) if doubtful else None
    if known is None:
        return (), []
    return known, [name for name in doubtful if name not in known]


def _declared(workload: Workload) -> set[str]:
    is_own = ":" in workload.name
    has_ours = not is_own or type(workload).metrics is Workload.metrics
    return {*workload.better, *(("accuracy", "loss") if has_ours else ())}


def _tried(workload: Workload, dtype: torch.dtype) -> tuple[str, ...] | None:
    """Name what `metrics` and `joined_metrics` give; None where a few rows do not tell."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            data = rows_of(workload, "test", dtype)
            batch = data.take(torch.arange(min(_TRIED_ROWS, len(data))))
            if data.touched(batch) is not None:  # rows of a table, which is large
                return None
            model = model_of(workload).to(dtype).eval()
            given = workload.metrics(model, batch)
            read = metrics_of(workload, given, len(batch[0]), joins=True)
            columns = {name: each for name, each in read.items() if isinstance(each, Tensor)}
            joined = joined_of(workload, workload.joined_metrics(columns))
    except Exception:  # noqa: BLE001 - whatever a user's code raises: the run says it
        return None
    return (*(name for name in read if name not in columns), *joined)
