"""What a user's workload gives wrong is answered with what was expected, by class and method."""

import pytest
import torch
from torch import nn

import paceline
from paceline.clusters.inline import Inline
from paceline.errors import SeatFailed, SpecError, WorkloadError
from paceline.training.metrics import RESERVED
from paceline.workloads.base import Tensors, Workload

NUM_STEPS = 3


class Right(Workload):
    """Each class below has one thing wrong."""

    default_batch = 8

    def model(self):
        return nn.Linear(2, 1)

    def data(self, split, dtype):
        generator = torch.Generator().manual_seed(len(split))
        inputs = torch.randn(64, 2, generator=generator, dtype=dtype)
        return Tensors(inputs, inputs.sum(1, keepdim=True))

    def loss(self, model, batch):
        inputs, values = batch
        return nn.functional.mse_loss(model(inputs), values)

    def metrics(self, model, batch):
        return {"mae": (model(batch[0]) - batch[1]).abs().mean(), "loss": self.loss(model, batch)}


def run(workload, tmp_path, **fields):
    spec = paceline.RunSpec(
        workload=workload, cluster=Inline(), steps=NUM_STEPS, threads=1, **fields
    )
    return paceline.run(spec, out=tmp_path)


def failure(workload, tmp_path, **fields):
    """What a run says that fails when its workers are ready, and how many steps it made."""
    with pytest.raises(SeatFailed) as caught:
        run(workload, tmp_path, **fields)
    return str(caught.value), caught.value.result.worker_steps


def test_what_is_right_is_trained(tmp_path):
    result = run(Right(), tmp_path)
    assert set(result.test_metrics) == {"mae", "loss"}
    assert result.test_accuracy is None


class TestData:
    class Pair(Right):
        def data(self, split, dtype):
            return torch.zeros(64, 2), torch.zeros(64, 1)

    class Nothing(Right):
        def data(self, split, dtype):
            del split, dtype

    class NoTestRows(Right):
        def data(self, split, dtype):
            rows = 64 if split == "train" else 0
            return Tensors(torch.zeros(rows, 2, dtype=dtype), torch.zeros(rows, 1, dtype=dtype))

    @pytest.mark.parametrize(
        ("workload", "came"),
        [(Pair(), r"a tuple of 2 \(Tensor, Tensor\)"), (Nothing(), "None; is a return missing?")],
    )
    def test_it_is_told_before_anything_starts(self, tmp_path, workload, came):
        name = type(workload).__name__
        with pytest.raises(WorkloadError, match=rf"{name}.data\('train', dtype\).*Data.*{came}"):
            run(workload, tmp_path / "runs")
        assert not (tmp_path / "runs").exists()

    def test_no_test_rows_are_told_before_training(self, tmp_path):
        text, steps = failure(self.NoTestRows(), tmp_path)
        assert "NoTestRows.data('test', dtype) must return test rows; it returned none" in text
        assert steps == 0

    @pytest.mark.parametrize(
        "columns", [(), (torch.zeros(4, 2), torch.zeros(3)), (torch.zeros(4), [1, 2, 3, 4])]
    )
    def test_columns_have_as_many_rows_each(self, columns):
        with pytest.raises(TypeError, match="the same number of rows; got"):
            Tensors(*columns)


class TestModel:
    class Function(Right):
        def model(self):
            return torch.sum

    def test_it_is_told_before_training(self, tmp_path):
        text, steps = failure(self.Function(), tmp_path)
        assert "Function.model() must return a torch.nn.Module; it returned an object" in text
        assert steps == 0


class TestLoss:
    class Number(Right):
        def loss(self, model, batch):
            return super().loss(model, batch).item()

    class PerRow(Right):
        def loss(self, model, batch):
            return (model(batch[0]) - batch[1]) ** 2

        def metrics(self, model, batch):
            return {"loss": self.loss(model, batch).mean()}

    class Detached(Right):
        def loss(self, model, batch):
            return super().loss(model, batch).detach()

    @pytest.mark.parametrize(
        ("workload", "came"),
        [
            (Number(), "it returned the float "),
            (PerRow(), "it returned a tensor of shape (8, 1)"),
            (Detached(), "it returned one that needs no gradient"),
        ],
    )
    def test_it_is_told_at_the_first_step(self, tmp_path, workload, came):
        text, steps = failure(workload, tmp_path)
        assert f"{type(workload).__name__}.loss(model, batch) must return the batch's mean" in text
        assert came in text
        assert steps == 0


class TestMetrics:
    class Given(Right):
        """Gives what it is told to, by a number: a field must be a plain value."""

        which: int = 0

        def metrics(self, model, batch):
            rows = len(batch[0])
            return (
                0.3,
                {"mae": "low"},
                {1: 0.3},
                {"two\nlines": 0.3},
                {"mae": torch.zeros(rows)},
                {"mae": None},
            )[self.which]

    class Named(Right):
        metric: str = ""

        def metrics(self, model, batch):
            return {self.metric: 0.5}

    class Joined(Right):
        def metrics(self, model, batch):
            return {"errors": torch.zeros(len(batch[0]) + 1)}

        def joined_metrics(self, columns):
            return {"median": columns["errors"].median().item()}

    @pytest.mark.parametrize(
        ("which", "said"),
        [
            (0, "must return a dict of numbers, such as {'mae': 0.2}; it returned the float 0.3"),
            (1, "['mae'] must return a number: the mean over the batch; it returned the str 'low'"),
            (2, "must return metrics named by words; it returned the name 1"),
            (3, "it returned the name 'two\\nlines'"),
            (4, "['mae'] must return a number, the mean over the batch, unless joined_metrics"),
            (5, "it returned None"),
        ],
    )
    def test_it_is_told_before_training(self, tmp_path, which, said):
        text, steps = failure(self.Given(which=which), tmp_path)
        assert "Given.metrics(model, batch)" in text
        assert said in text
        assert steps == 0

    @pytest.mark.parametrize("name", RESERVED)
    def test_a_column_of_ours_is_no_name_for_a_metric(self, tmp_path, name):
        text, steps = failure(self.Named(metric=name), tmp_path)
        assert f"it returned a metric named {name!r}" in text
        assert steps == 0

    def test_values_of_rows_are_as_many_as_the_rows(self, tmp_path):
        text, _ = failure(self.Joined(), tmp_path)
        assert "one value for each of the 16 rows of the batch; it returned a tensor of" in text

    def test_a_target_on_an_unknown_metric_is_answered_with_those_that_are(self, tmp_path):
        with pytest.raises(SpecError) as caught:
            run(Right(), tmp_path / "runs", target=("rmse<=0.2",))
        text = str(caught.value)
        assert "target = 'rmse<=0.2': Right's metrics have no such name" in text
        assert "(choices: mae, loss)" in text
        assert not (tmp_path / "runs").exists()


class TestSignatures:
    class OldData(Right):
        def data(self, split):
            return super().data(split, torch.float32)

    class Confused(Right):
        better = {"mae": "smaller"}  # noqa: RUF012 - as a user writes it

    @pytest.mark.parametrize(
        ("workload", "field", "said"),
        [
            (OldData(), "workload.data", "must be defined as data(self, split, dtype)"),
            (Confused(), "workload.better['mae']", "neither that higher nor that lower"),
        ],
    )
    def test_they_are_checked_before_anything_starts(self, tmp_path, workload, field, said):
        with pytest.raises(SpecError) as caught:
            run(workload, tmp_path / "runs")
        (problem,) = caught.value.problems
        assert problem.field == field
        assert said in problem.reason
        assert not (tmp_path / "runs").exists()
