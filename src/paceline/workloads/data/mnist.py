"""MNIST and Fashion-MNIST: all of it where it was fetched, or the tenth of MNIST that ships."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import DataError, Problem, SpecError
from paceline.workloads.data import catalogue, embedded, idx
from paceline.workloads.data.catalogue import DataFile, DataSet
from paceline.workloads.data.images import (
    Images,
    Split,
    Subset,
    how_to_get,
    num_rows_of,
    require_choice,
    require_sizes,
    require_whole,
)

NAMES = (catalogue.MNIST.name, catalogue.FASHION_MNIST.name)
PREFIXES: dict[Split, str] = {"train": "train", "test": "t10k"}


def images(
    split: Split,
    data_dir: Path | None = None,
    subset: Subset = "auto",
    name: str = "mnist",
    *,
    is_verified: bool = False,
) -> Images:
    """The images of one split, checked against the catalogue, unless `verify` has just done so.

    `auto` takes all of it if every file is in `data_dir`, else the tenth that ships; a file
    that is there but damaged is an error, never a reason to take less.
    """
    dataset, folder = _locate(split, data_dir, subset, name)
    if not is_verified:
        _verify_files(dataset, folder, split)
    elif folder is not None:
        require_sizes(folder, dataset)
    source, files = (embedded.FOLDER, embedded.FILES) if folder is None else (folder, dataset.files)
    pixels, labels = (idx.read(source / file.name) for file in _files_of(files, split))
    if folder is None:
        return Images(pixels, labels, f"mnist-tenth, {len(labels):,} rows, embedded")
    return Images(pixels, labels, f"{name}, {len(labels):,} rows")


def verify(data_dir: Path | None = None, subset: Subset = "auto", name: str = "mnist") -> None:
    """Compare every byte of what `images` would read with the catalogue; DataError by name."""
    for split in PREFIXES:
        dataset, folder = _locate(split, data_dir, subset, name)
        _verify_files(dataset, folder, split)


def num_rows(
    split: Split, data_dir: Path | None = None, subset: Subset = "auto", name: str = "mnist"
) -> int:
    """How many rows `images` would return; looks at sizes only and reads no pixels."""
    dataset, folder = _locate(split, data_dir, subset, name)
    if folder is None:
        return embedded.NUM_TRAIN if split == "train" else embedded.NUM_TEST
    require_sizes(folder, dataset)
    return num_rows_of(dataset, split)


def _locate(
    split: Split, data_dir: Path | None, subset: Subset, name: str
) -> tuple[DataSet, Path | None]:
    """The data set and the folder to read it from; no folder means the embedded tenth."""
    require_choice("split", split, Split)
    require_choice("subset", subset, Subset)
    if name not in NAMES:
        raise SpecError([Problem("data set", name, "is not one of the MNIST kind", NAMES)])
    dataset = catalogue.find(name)
    has_tenth = dataset is catalogue.MNIST
    if subset == "tenth" and not has_tenth:
        raise DataError(f"{name}: no tenth of it ships with Paceline; {how_to_get(dataset)}")
    folder = (data_dir or catalogue.default_data_dir()) / name
    # All files decide, not only this split's: training and test data must be of one kind.
    complete = all((folder / file.name).exists() for file in dataset.files)
    if subset == "tenth" or (subset == "auto" and has_tenth and not complete):
        return dataset, None
    return dataset, folder


def _verify_files(dataset: DataSet, folder: Path | None, split: Split) -> None:
    source, files, remedy = (
        (embedded.FOLDER, embedded.FILES, "install Paceline again")
        if folder is None
        else (folder, dataset.files, how_to_get(dataset))
    )
    for file in _files_of(files, split):
        require_whole(source / file.name, file, remedy)


def _files_of(files: tuple[DataFile, ...], split: Split) -> tuple[DataFile, DataFile]:
    pixels, labels = (file for file in files if file.name.startswith(PREFIXES[split]))
    return pixels, labels
