"""The MNIST and CIFAR-10 readers: what they return, and what they refuse."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from paceline.errors import DataError, SpecError
from paceline.workloads.data import catalogue, cifar, embedded, fetch, mnist


def _cached(name):
    """The real cache folder if the data set is whole there; else the test cannot run."""
    if any(state.state != "ok" for state in fetch.verify(name)):
        pytest.skip(f"full {name} is not in {catalogue.default_data_dir()}")
    return catalogue.default_data_dir()


@pytest.mark.parametrize(("split", "num_rows"), [("train", 6_000), ("test", 1_000)])
def test_the_tenth_ships_and_is_balanced(tmp_path, split, num_rows):
    data = mnist.images(split, tmp_path)
    assert data.images.shape == (num_rows, 28, 28)
    assert data.images.dtype == data.labels.dtype == np.uint8
    assert np.bincount(data.labels).tolist() == [num_rows // 10] * 10
    assert data.origin == f"mnist-tenth, {num_rows:,} rows, embedded"
    assert len(data) == mnist.num_rows(split, tmp_path) == num_rows


def test_the_tenth_carries_its_attribution():
    readme = (embedded.FOLDER / "README.md").read_text()
    assert all(author in readme for author in ("LeCun", "Cortes", "Burges"))
    assert "CC BY-SA 3.0" in (embedded.FOLDER / "LICENSE").read_text()


@pytest.mark.parametrize(("split", "num_rows"), [("train", 60_000), ("test", 10_000)])
def test_full_mnist_is_taken_where_it_is_complete(split, num_rows):
    data_dir = _cached("mnist")
    data = mnist.images(split, data_dir)
    assert data.origin == f"mnist, {num_rows:,} rows"
    assert data.images.shape == (num_rows, 28, 28)
    assert data.labels[:3].tolist() == ([5, 0, 4] if split == "train" else [7, 2, 1])
    assert data.images.flags.writeable  # torch.from_numpy warns otherwise
    assert mnist.num_rows(split, data_dir, "full") == num_rows


def test_the_tenth_is_the_first_of_each_digit_in_order():
    full = mnist.images("train", _cached("mnist"), "full")
    tenth = mnist.images("train", subset="tenth")
    firsts = [np.flatnonzero(full.labels == digit)[:600] for digit in range(10)]
    rows = np.sort(np.concatenate(firsts))
    np.testing.assert_array_equal(tenth.images, full.images[rows])
    np.testing.assert_array_equal(tenth.labels, full.labels[rows])


@pytest.mark.parametrize("call", [mnist.images, mnist.num_rows])
def test_full_that_is_missing_says_how_to_get_it(tmp_path, call):
    with pytest.raises(DataError, match=r"missing; to get it: paceline data get mnist$"):
        call("train", tmp_path, "full")


def test_fashion_mnist_has_no_tenth_to_fall_back_on(tmp_path):
    with pytest.raises(DataError, match="paceline data get fashion-mnist"):
        mnist.images("train", tmp_path, "auto", "fashion-mnist")
    with pytest.raises(DataError, match="no tenth of it ships"):
        mnist.images("train", tmp_path, "tenth", "fashion-mnist")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"split": "t10k"}, r"split = 't10k': .*train, test"),
        ({"split": "train", "subset": "half"}, r"subset = 'half': .*auto, full, tenth"),
        ({"split": "train", "name": "cifar10"}, r"data set = 'cifar10': .*mnist, fashion-mnist"),
    ],
)
def test_a_wrong_choice_lists_the_choices(tmp_path, arguments, field):
    with pytest.raises(SpecError, match=field):
        mnist.images(data_dir=tmp_path, **arguments)


@pytest.fixture
def copied(tmp_path):
    """A copy of the real MNIST that a test may spoil."""
    shutil.copytree(_cached("mnist") / "mnist", tmp_path / "mnist")
    return tmp_path


def test_a_damaged_file_is_an_error_by_name_never_a_reason_to_take_less(copied):
    path = copied / "mnist" / "train-labels-idx1-ubyte"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="train-labels-idx1-ubyte: content differs: md5 is"):
        mnist.images("train", copied)
    path.write_bytes(content[:-1])
    for call in (mnist.images, mnist.num_rows):
        with pytest.raises(DataError, match="has 60,007 bytes, should have 60,008"):
            call("train", copied)


def test_incomplete_data_gives_the_tenth_for_both_splits(copied):
    (copied / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert len(mnist.images("train", copied)) == 6_000
    assert len(mnist.images("test", copied)) == 1_000


@pytest.mark.parametrize(("split", "num_rows"), [("train", 50_000), ("test", 10_000)])
def test_cifar_is_read_as_planes(split, num_rows):
    data_dir = _cached("cifar10")
    data = cifar.images(split, data_dir)
    assert data.images.shape == (num_rows, 3, 32, 32)
    assert data.images.dtype == np.uint8
    assert np.bincount(data.labels).tolist() == [num_rows // 10] * 10
    assert data.origin == f"cifar10, {num_rows:,} rows"
    assert cifar.num_rows(split, data_dir) == num_rows
    # The mean colour of CIFAR-10 that everybody normalises with.
    mean = data.images.mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=0.004)


def test_cifar_that_is_missing_or_damaged_is_named(tmp_path):
    for call in (cifar.images, cifar.num_rows):
        with pytest.raises(DataError, match=r"data_batch_1\.bin: missing; .*get cifar10"):
            call("train", tmp_path)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match=r"test_batch\.bin: has 3,073 bytes"):
        cifar.images("test", tmp_path)


def test_reading_data_loads_neither_torch_nor_polars():
    code = (
        "import sys; from paceline.workloads.data import cifar, fetch, mnist;"
        "mnist.images('test', subset='tenth');"
        "print([name for name in ('torch', 'polars', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
