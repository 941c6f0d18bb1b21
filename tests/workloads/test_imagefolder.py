"""Folders of pictures: found, divided, decoded on threads, the same for any number of workers."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from paceline.errors import DataError, SpecError
from paceline.workloads import WORKLOADS
from paceline.workloads.data.folder import decoded, files_of
from paceline.workloads.imagefolder import DEVIATION, MEAN, ImageFolder
from paceline.workloads.order import Order

COLOURS = {"blue": (0, 0, 250), "green": (0, 250, 0), "red": (250, 0, 0)}


def paint(path: Path, colour, size=(50, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty pictures of each of three colours, of several kinds and sizes."""
    for name, colour in COLOURS.items():
        for number in range(20):
            suffix = ("png", "jpg", "bmp", "JPEG")[number % 4]
            paint(tmp_path / "photos" / name / f"{number}.{suffix}", colour, (40 + number, 50))
    (tmp_path / "photos" / "red" / "notes.txt").write_text("no picture")
    (tmp_path / "photos" / ".thumbnails").mkdir()
    return tmp_path / "photos"


def workload(folder: Path, **fields) -> ImageFolder:
    return ImageFolder(folder=folder, image_size=32, net="resnet20", **fields)


def test_a_share_is_kept_for_tests_and_stays_there(photos):
    train, test = (files_of(photos, split, 0.25) for split in ("train", "test"))
    assert train.names == ["blue", "green", "red"]
    assert len(train.paths) + len(test.paths) == 60
    assert not set(train.paths) & set(test.paths)
    assert 5 <= len(test.paths) <= 25
    paint(photos / "blue" / "new.png", (0, 0, 200))
    assert set(test.paths) <= set(files_of(photos, "test", 0.25).paths)


@pytest.mark.parametrize("name", ["test", "val"])
def test_folders_for_training_and_tests_are_used_where_they_are(photos, tmp_path, name):
    divided = tmp_path / "divided"
    divided.mkdir()
    photos.rename(divided / "train")
    paint(divided / name / "red" / "one.png", COLOURS["red"])
    test = files_of(divided, "test", 0.1)
    assert [path.name for path in test.paths] == ["one.png"]
    assert test.classes == [2]
    assert workload(divided).num_rows() == 60


def test_pictures_become_normalised_tensors_of_one_size(photos):
    data = workload(photos).data("train", torch.float32)
    red = data._classes.tolist().index(2)
    pixels, classes = data.take(torch.tensor([red, 0]))
    assert pixels.shape == (2, 3, 32, 32)
    assert classes.tolist() == [2, 0]
    expected = (torch.tensor([250, 0, 0]) / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    torch.testing.assert_close(pixels[0].mean((1, 2)), expected, atol=0.05, rtol=0)
    assert data.origin == f"photos, {len(data)} pictures of 3 classes"


def test_a_picture_is_cut_where_it_is_said(tmp_path):
    shades = np.arange(100, dtype=np.uint8).reshape(1, 100).repeat(37, axis=0)
    Image.fromarray(np.stack([shades] * 3, axis=2)).save(tmp_path / "ramp.png")
    left, right = (decoded(tmp_path / "ramp.png", 32, 0.5, at) for at in (0.0, 0.999))
    assert left.shape == (3, 32, 32)
    assert left[0, 0, 0] == 0
    assert right[0, 0, -1] == 99


def test_grey_transparent_and_tiny_pictures_are_taken(tmp_path):
    for mode, size in (("L", (60, 60)), ("RGBA", (300, 20)), ("P", (1, 1)), ("1", (33, 32))):
        path = tmp_path / f"{mode}.png"
        Image.new(mode, size).save(path)
        assert decoded(path, 32, 0.3, 0.7).shape == (3, 32, 32)


def taken(made: ImageFolder, num_workers: int, batch: int, rank: int, count: int) -> list:
    data = made.data("train", torch.float32)
    order = Order(num_rows=len(data), num_workers=num_workers, batch=batch, seed=1)
    return list(itertools.islice(data.batches(order, rank), count))


def test_workers_together_see_exactly_what_one_sees(photos):
    whole = taken(workload(photos, load_threads=3), 1, 6, 0, 12)
    parts = [taken(workload(photos), 2, 3, rank, 12) for rank in range(2)]
    for step, (pixels, classes) in enumerate(whole):
        assert torch.equal(pixels, torch.cat([part[step][0] for part in parts]))
        assert torch.equal(classes, torch.cat([part[step][1] for part in parts]))


def test_pictures_are_drawn_and_changed_on_from_the_middle_of_an_epoch(photos):
    data = workload(photos, load_threads=3).data("train", torch.float32)
    order = Order(num_rows=len(data), num_workers=1, batch=6, seed=1)
    whole = list(itertools.islice(data.batches(order, 0), 12))
    rest = itertools.islice(data.batches(order.continued(order.state(7)), 0), 5)
    for ours, wanted in zip(rest, whole[7:], strict=True):
        assert all(map(torch.equal, ours, wanted))


@pytest.mark.parametrize("content", [b"", b"not a picture", None])
def test_a_bad_picture_is_told_by_its_file(photos, content):
    whole = (photos / "red" / "3.JPEG").read_bytes()
    (photos / "red" / "3.JPEG").write_bytes(whole[:200] if content is None else content)
    made = workload(photos, test_share=0.01)
    with pytest.raises(DataError, match=r"red/3\.JPEG: cannot be read as a picture"):
        taken(made, 1, 10, 0, made.num_rows() // 10)


class TestWrong:
    def test_no_folder(self):
        with pytest.raises(SpecError, match=r"workload.folder.*must be given"):
            WORKLOADS.build({"name": "imagefolder"})

    def test_a_network_that_needs_more_pixels(self, photos):
        fields = {"name": "imagefolder", "folder": photos, "net": "alexnet", "image_size": 32}
        with pytest.raises(SpecError, match="alexnet"):
            WORKLOADS.build(fields)

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(DataError, match="nowhere: not a folder"):
            workload(tmp_path / "nowhere").verify()

    def test_one_class_is_none(self, photos):
        with pytest.raises(DataError, match="at least two"):
            workload(photos / "red").verify()
        paint(photos / "red" / "dark" / "1.png", (100, 0, 0))
        with pytest.raises(DataError, match="only dark"):
            workload(photos / "red").verify()

    def test_classes_without_pictures(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "x.txt").write_text("")
        with pytest.raises(DataError, match=r"no pictures.*\.png"):
            workload(tmp_path).num_rows()

    def test_a_test_class_that_is_not_trained(self, photos, tmp_path):
        photos.rename(tmp_path / "train")
        paint(tmp_path / "test" / "violet" / "1.png", (99, 0, 99))
        with pytest.raises(DataError, match=r"test/violet"):
            workload(tmp_path).verify()
