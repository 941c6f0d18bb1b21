"""The CIFAR-10 workloads on files of the right size whose rows are made up."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.errors import DataError, SpecError
from paceline.workloads import WORKLOADS
from paceline.workloads.cifar import DEVIATION, MEAN, AlexnetCifar10, Cifar10, Resnet20Cifar10
from paceline.workloads.data.catalogue import CIFAR10
from paceline.workloads.data.cifar import ROW_BYTES
from paceline.workloads.order import Order

NAMES = [name for name in WORKLOADS.entries if name.endswith("-cifar10")]
NUM_MADE = 64


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    """Files of the published sizes; the first rows hold something, the others are zero."""
    folder = tmp_path_factory.mktemp("cache") / CIFAR10.name
    folder.mkdir()
    rng = np.random.default_rng(0)
    for file in CIFAR10.files:
        rows = rng.integers(0, 256, (NUM_MADE, ROW_BYTES), dtype=np.uint8)
        rows[:, 0] %= 10
        with (folder / file.name).open("wb") as stream:
            stream.write(rows.tobytes())
            stream.truncate(file.size_bytes)
    return folder.parent


@pytest.fixture(scope="module")
def small(data_dir) -> Resnet20Cifar10:
    return Resnet20Cifar10(data_dir=data_dir)


def rows_of(path: Path):
    return np.fromfile(path, dtype=np.uint8, count=NUM_MADE * ROW_BYTES).reshape(NUM_MADE, -1)


def test_pictures_are_normalised_and_laid_out_as_the_network_computes(small, data_dir):
    data = small.data("test", torch.float64)
    assert len(data) == 10_000
    assert data.origin == "cifar10, 10,000 rows"
    pixels, classes = data.take(torch.tensor([5, 2]))
    made = rows_of(data_dir / "cifar10" / "test_batch.bin")[[5, 2]]
    mean, deviation = (np.reshape(each, (3, 1, 1)) for each in (MEAN, DEVIATION))
    expected = (made[:, 1:].reshape(2, 3, 32, 32) / 255 - mean) / deviation
    np.testing.assert_allclose(pixels.numpy(), expected, atol=1e-12)
    assert classes.tolist() == made[:, 0].tolist()
    assert pixels.is_contiguous(memory_format=torch.channels_last)


def test_pictures_are_resized_where_a_network_needs_more(data_dir):
    workload = AlexnetCifar10(data_dir=data_dir)
    pixels, _ = workload.data("test", torch.float32).take(torch.arange(3))
    assert pixels.shape == (3, 3, 64, 64)
    plain, _ = Resnet20Cifar10(data_dir=data_dir).data("test", torch.float32).take(torch.arange(3))
    assert pixels.mean() == pytest.approx(float(plain.mean()), abs=0.01)


def taken(workload: Cifar10, num_workers: int, batch: int, rank: int, count: int) -> list:
    data = workload.data("train", torch.float32)
    order = Order(num_rows=len(data), num_workers=num_workers, batch=batch, seed=4)
    return list(itertools.islice(data.batches(order, rank), count))


@pytest.mark.parametrize("augment", [True, False])
def test_workers_together_see_exactly_what_one_sees(small, augment):
    workload = Resnet20Cifar10(data_dir=small.data_dir, augment=augment)
    whole = taken(workload, 1, 12, 0, 3)
    parts = [taken(workload, 3, 4, rank, 3) for rank in range(3)]
    for step, (pixels, classes) in enumerate(whole):
        assert torch.equal(pixels, torch.cat([part[step][0] for part in parts]))
        assert torch.equal(classes, torch.cat([part[step][1] for part in parts]))


def test_an_augmented_picture_is_another_each_epoch(small):
    data = small.data("train", torch.float32)
    order = Order(num_rows=1, num_workers=1, batch=1, seed=0)
    seen = [pixels for pixels, _ in itertools.islice(data.batches(order, 0), 6)]
    assert len({pixels.numpy().tobytes() for pixels in seen}) > 3
    plain, _ = data.take(torch.zeros(1, dtype=torch.int64))
    assert all(pixels.shape == plain.shape for pixels in seen)


def test_metrics_say_whether_the_class_is_among_the_first_five(small):
    class Fixed(torch.nn.Module):
        def forward(self, inputs):
            return torch.arange(10.0).expand(len(inputs), 10)

    metrics = small.metrics(Fixed(), (torch.zeros(4, 3, 32, 32), torch.tensor([9, 5, 4, 0])))
    assert metrics["accuracy"] == 0.25
    assert metrics["top5"] == 0.5
    assert set(metrics) == {"accuracy", "top5", "loss"}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_found_by_its_name_and_knows_it(name, data_dir):
    workload = WORKLOADS.build({"name": name, "data_dir": data_dir})
    assert workload.name == name
    assert workload.table()["name"] == name
    assert WORKLOADS.build(workload.table()) == workload
    assert workload.num_rows() == 50_000


def test_large_pictures_are_tested_few_at_a_time():
    assert Resnet20Cifar10().test_batch == 500
    assert AlexnetCifar10(image_size=224).test_batch == 10


def test_rows_that_were_changed_are_told_before_anything_starts(small):
    with pytest.raises(DataError, match=r"data_batch_1.bin.*paceline data get cifar10"):
        small.verify()


def test_missing_data_is_told_with_the_command_that_fetches_it(tmp_path):
    workload = Resnet20Cifar10(data_dir=tmp_path)
    for ask in (workload.verify, workload.num_rows, lambda: workload.data("test", torch.float32)):
        with pytest.raises(DataError, match="paceline data get cifar10"):
            ask()
    assert workload.supply().here == "no"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "alexnet-cifar10", "image_size": 62}, "63"),
        ({"name": "vgg16-cifar10", "image_size": 31}, "32"),
        ({"name": "resnet50-cifar10", "num_classes": 9}, "10"),
        ({"name": "vgg16-cifar10", "depth": 19}, "depth = 16"),
        ({"name": "vgg19-cifar10", "dropout": 1.0}, "dropout"),
    ],
)
def test_what_no_network_can_do_is_told(fields, words):
    with pytest.raises(SpecError, match=words):
        WORKLOADS.build(fields)
