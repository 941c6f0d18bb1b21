"""The two MNIST workloads on the tenth that ships."""

from pathlib import Path

import pytest
import torch

from paceline.errors import DataError
from paceline.workloads.base import Tensors
from paceline.workloads.mnist import LenetMnist, LogisticMnist, Mnist

BOTH = [LogisticMnist(subset="tenth"), LenetMnist(subset="tenth")]
both = pytest.mark.parametrize("workload", BOTH, ids=lambda each: each.name)


@both
@pytest.mark.parametrize(("split", "num_rows"), [("train", 6000), ("test", 1000)])
def test_the_tenth_that_ships_is_read_without_a_download(
    workload: Mnist, split: str, num_rows: int, tmp_path: Path
):
    workload = type(workload)(data_dir=tmp_path)  # nothing there: auto takes what ships
    data = workload.data(split, torch.float32)
    assert len(data) == num_rows
    assert data.origin == f"mnist-tenth, {num_rows:,} rows, embedded"
    pixels, classes = data.take(torch.tensor([num_rows - 1, 0]))
    assert pixels.shape == (2, *workload.input_shape)
    assert classes.tolist() == data.columns[1][[num_rows - 1, 0]].tolist()


@both
def test_pixels_are_fractions_and_classes_are_digits(workload: Mnist):
    data = workload.data("train", torch.float64)
    assert isinstance(data, Tensors)
    pixels, classes = data.columns
    assert pixels.dtype == torch.float64
    assert (pixels.min(), pixels.max()) == (0, 1)
    assert classes.dtype == torch.int64
    assert classes.bincount().tolist() == [600] * 10


@both
def test_counting_rows_agrees_with_reading_them(workload: Mnist):
    assert workload.num_rows() == len(workload.data("train", torch.float32))


@pytest.mark.parametrize(("workload", "num_values"), [(BOTH[0], 7_850), (BOTH[1], 61_706)])
def test_the_models_have_the_sizes_of_the_reports(workload: Mnist, num_values: int):
    assert sum(each.numel() for each in workload.model().parameters()) == num_values


@both
def test_loss_and_metrics_of_a_batch(workload: Mnist):
    torch.manual_seed(0)
    model = workload.model()
    batch = workload.data("test", torch.float32).take(torch.arange(100))
    loss = workload.loss(model, batch)
    metrics = workload.metrics(model, batch)
    assert loss.item() == pytest.approx(2.3, abs=0.3)  # a guess among ten
    assert metrics["loss"].item() == pytest.approx(loss.item())
    right = (model(batch[0]).argmax(1) == batch[1]).sum().item()
    assert metrics["accuracy"].item() == right / 100


@both
def test_the_same_seed_makes_the_same_model(workload: Mnist):
    made = []
    for _ in range(2):
        torch.manual_seed(7)
        made.append(workload.model())
    for first, second in zip(*(model.parameters() for model in made), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize(
    "workload",
    [
        LogisticMnist(subset="full", data_dir=Path("/nowhere")),
        LogisticMnist(data_set="fashion-mnist", data_dir=Path("/nowhere")),
        LogisticMnist(data_set="fashion-mnist", subset="tenth"),
    ],
    ids=["full", "fashion", "fashion tenth"],
)
def test_data_that_must_be_fetched_is_told_with_the_command_that_fetches_it(workload: Mnist):
    for ask in (workload.num_rows, lambda: workload.data("train", torch.float32)):
        with pytest.raises(DataError, match=f"paceline data get {workload.data_set}"):
            ask()
