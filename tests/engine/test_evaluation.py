"""Evaluations of any metric: off the record of training, and able to end it."""

import polars
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import paceline
from paceline.clusters.inline import Inline
from paceline.store.runs import RunDir
from paceline.training.metrics import Target
from paceline.workloads.base import Tensors, Workload


class Dropped(Workload):
    """Training draws random numbers."""

    default_batch = 8
    better = {"mae": "lower"}  # noqa: RUF012 - as a user writes it

    def model(self):
        return nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def data(self, split, dtype):
        generator = torch.Generator().manual_seed(len(split))
        inputs = torch.randn(64, 2, generator=generator, dtype=dtype)
        return Tensors(inputs, inputs.sum(1, keepdim=True))

    def loss(self, model, batch):
        return nn.functional.mse_loss(model(batch[0]), batch[1])

    def metrics(self, model, batch):
        return {"mae": (model(batch[0]) - batch[1]).abs().mean(), "errors": model(batch[0])[:, 0]}

    def joined_metrics(self, columns):
        if len(columns["errors"]) < 64:
            raise ValueError("too few rows for a median")
        return {"median": float(columns["errors"].median())}


class DrawsToo(Dropped):
    """So do its metrics."""

    def metrics(self, model, batch):
        torch.rand(5)
        return super().metrics(model, batch)


def run(workload, tmp_path, **fields):
    spec = paceline.RunSpec(workload=workload, cluster=Inline(), threads=1, **fields)
    return paceline.run(spec, out=tmp_path)


def test_trying_metrics_out_changes_nothing_that_is_learnt(tmp_path):
    results = [run(each, tmp_path, steps=5) for each in (Dropped(), DrawsToo())]
    first, second = (load_file(RunDir(tmp_path / each.run).model) for each in results)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_ends_when_all_of_its_targets_are_reached(tmp_path):
    targets = ("mae<=1000", Target("median", "higher", -1000.0))
    result = run(Dropped(), tmp_path, epochs=50, eval_every=3, target=targets)
    assert result.global_steps == 3
    assert result.target == "mae<=1000 and median>=-1000"
    assert result.better == {"accuracy": "higher", "mae": "lower", "loss": "lower"}
    assert result.seconds_to_target is not None
    rows = polars.read_parquet(RunDir(tmp_path / result.run).evaluations)
    assert rows.columns == ["time_s", "progress", "mae", "median"]


def test_one_target_that_is_not_reached_keeps_it_going(tmp_path):
    result = run(Dropped(), tmp_path, epochs=1, eval_every=3, target=("mae<=1000", "median>=1e9"))
    assert result.global_steps == 8
    assert result.seconds_to_target is None


def test_a_joined_metric_that_few_rows_cannot_tell_is_looked_for_later(tmp_path):
    with pytest.raises(paceline.PacelineError, match=r"choices: mae, median\)"):
        run(Dropped(), tmp_path, epochs=1, eval_every=3, target=("middle<=1",))
