"""CIFAR-10 in its authors' binary layout: a row is one label byte, then 3 x 32 x 32 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paceline.workloads.data import catalogue
from paceline.workloads.data.catalogue import DataFile
from paceline.workloads.data.images import (
    Images,
    Split,
    how_to_get,
    num_rows_of,
    require_choice,
    require_sizes,
    require_whole,
)

SHAPE = (3, 32, 32)
ROW_BYTES = 1 + 3 * 32 * 32


def images(split: Split, data_dir: Path | None = None, *, is_verified: bool = False) -> Images:
    """The images of one split as [n, 3, 32, 32], checked unless `verify` has just done so."""
    require_choice("split", split, Split)
    folder = _folder(data_dir)
    if is_verified:
        require_sizes(folder, catalogue.CIFAR10)
    pixels = np.empty((num_rows_of(catalogue.CIFAR10, split), *SHAPE), dtype=np.uint8)
    labels = np.empty(len(pixels), dtype=np.uint8)
    start = 0
    for file in _files_of(split):
        if not is_verified:
            _verify_file(folder, file)
        rows = np.fromfile(folder / file.name, dtype=np.uint8).reshape(-1, ROW_BYTES)
        stop = start + len(rows)
        labels[start:stop] = rows[:, 0]
        pixels[start:stop] = rows[:, 1:].reshape(-1, *SHAPE)
        start = stop
    return Images(pixels, labels, f"cifar10, {len(labels):,} rows")


def verify(data_dir: Path | None = None) -> None:
    """Compare every byte of both splits with the catalogue; DataError by name."""
    for file in catalogue.CIFAR10.files:
        _verify_file(_folder(data_dir), file)


def num_rows(split: Split, data_dir: Path | None = None) -> int:
    """How many rows `images` would return; looks at sizes only and reads no pixels."""
    require_choice("split", split, Split)
    require_sizes(_folder(data_dir), catalogue.CIFAR10)
    return num_rows_of(catalogue.CIFAR10, split)


def _folder(data_dir: Path | None) -> Path:
    return (data_dir or catalogue.default_data_dir()) / catalogue.CIFAR10.name


def _files_of(split: Split) -> tuple[DataFile, ...]:
    prefix = "data_batch" if split == "train" else "test_batch"
    return tuple(file for file in catalogue.CIFAR10.files if file.name.startswith(prefix))


def _verify_file(folder: Path, file: DataFile) -> None:
    require_whole(folder / file.name, file, how_to_get(catalogue.CIFAR10))
