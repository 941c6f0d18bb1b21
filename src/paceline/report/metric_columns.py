"""Metrics as columns of tables and figures: whatever a workload's `metrics` gives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.exhibits import Column
from paceline.metrics import form_of, in_order
from paceline.report.sides import Side
from paceline.stored import StoredRun


def metric_columns(values: Mapping[str, Sequence[float]]) -> dict[str, Column]:
    """Say how each metric is headed and written, accuracy first; `values` are all there are."""
    columns: dict[str, Column] = {}
    for number, name in enumerate(in_order(values)):
        column = _metric_column(name, values[name])
        taken = {each.name for each in columns.values()}
        columns[name] = (
            replace(column, name=f"{column.name}_{number}") if column.name in taken else column
        )
    return columns


def _metric_column(name: str, values: Sequence[float]) -> Column:
    if name == "accuracy":
        return Column(name=name, label=name, unit="%", form=".2f", scale=100)
    label = "test loss" if name == "loss" else name
    # A user's name may hold anything; that of a column and of its figure's file may not.
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return Column(name=f"test_{plain}", label=label, form=form_of(values))


def tested_columns(sides: Sequence[Side]) -> dict[str, Column]:
    """Give a column for each metric that any of the runs ended with."""
    runs = [run for side in sides for run in side.runs]
    names = dict.fromkeys(name for run in runs for name in run.result.test_metrics)
    return metric_columns(
        {
            name: [run.result.test_metrics[name] for run in runs if name in run.result.test_metrics]
            for name in names
        }
    )


def tested_value(run: StoredRun, metric: str) -> float | None:
    """Give what a run ended with; None where it has no such metric."""
    return run.result.test_metrics.get(metric)
