"""Images and their labels, as every reader here returns them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from paceline.errors import DataError, Problem, SpecError
from paceline.workloads.base import Supply
from paceline.workloads.data.catalogue import DataFile, DataSet, default_data_dir
from paceline.workloads.data.checks import check, check_size, presence

Split = Literal["train", "test"]
Subset = Literal["auto", "full", "tenth"]
ByteArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Images:
    """Images, one label each, and a line that says where they came from."""

    images: ByteArray  # [n, height, width] grey, or [n, channel, height, width] colour
    labels: ByteArray  # [n]
    origin: str

    def __len__(self) -> int:
        return len(self.labels)


def require_choice(field: str, value: str, kind: object) -> None:
    """SpecError unless `value` is one of the strings of the Literal `kind`."""
    choices = get_args(kind)
    if value not in choices:
        raise SpecError([Problem(field, value, f"unknown {field}", choices)])


def require_whole(path: Path, file: DataFile, remedy: str) -> None:
    """DataError, by name and with what helps, unless the file is what it should be."""
    state = check(path, file)
    if state.state != "ok":
        raise DataError(f"{state}; {remedy}")


def require_sizes(folder: Path, dataset: DataSet) -> None:
    """The same for every file of a data set, by size alone: reads nothing."""
    for file in dataset.files:
        state = check_size(folder / file.name, file)
        if state.state != "ok":
            raise DataError(f"{state}; {how_to_get(dataset)}")


def supply_of(dataset: DataSet, data_dir: Path | None) -> Supply:
    """Say whether a data set of the catalogue is here."""
    here = presence(dataset, (data_dir or default_data_dir()) / dataset.name)
    remedy = "" if here == "yes" else f"paceline data get {dataset.name}"
    return Supply(data=dataset.name, here=here, remedy=remedy)


def how_to_get(dataset: DataSet) -> str:
    return f"to get it: paceline data get {dataset.name}"


def num_rows_of(dataset: DataSet, split: Split) -> int:
    return dataset.num_train if split == "train" else dataset.num_test
