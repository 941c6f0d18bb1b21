"""Metrics as columns of tables and figures: whatever a workload's `metrics` gives."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from paceline.exhibits.values import Column
from paceline.reporting.sides import Side
from paceline.store.stored import StoredRun
from paceline.training.metrics import form_of, in_order


def metric_columns(
    ended: Iterable[Mapping[str, float]], without: Container[str] = ()
) -> dict[str, Column]:
    """Give a column for each metric that any run ended with, accuracy first."""
    values: dict[str, list[float]] = {}
    for metrics in ended:
        for name, value in metrics.items():
            if name not in without:
                values.setdefault(name, []).append(value)
    return columns_for(values)


def columns_for(values: Mapping[str, Sequence[float]]) -> dict[str, Column]:
    """Say how each metric is headed and written; `values` are all there are of it."""
    columns: dict[str, Column] = {}
    for number, name in enumerate(in_order(values)):
        column = _column(name, values[name])
        taken = {each.name for each in columns.values()}
        columns[name] = (
            replace(column, name=f"{column.name}_{number}") if column.name in taken else column
        )
    return columns


def _column(name: str, values: Sequence[float]) -> Column:
    if name == "accuracy":
        return Column(name=name, label=name, unit="%", form=".2f", scale=100)
    label = "test loss" if name == "loss" else name
    # A user's name may hold anything; that of a column and of its figure's file may not.
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return Column(name=f"test_{plain}", label=label, form=form_of(values))


def tested_columns(sides: Sequence[Side]) -> dict[str, Column]:
    """Give a column for each metric of the sides' runs."""
    return metric_columns(run.result.test_metrics for side in sides for run in side.runs)


def tested_value(run: StoredRun, metric: str) -> float | None:
    """Give what a run ended with; None where it has no such metric."""
    return run.result.test_metrics.get(metric)
