"""Pictures in folders, one folder a class: which there are, and one decoded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import numpy as np

from paceline.errors import DataError
from paceline.workloads.data.images import ByteArray, Split

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES: Final = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
_SPLITS: Final[dict[Split, tuple[str, ...]]] = {"train": ("train",), "test": ("test", "val")}
# As much larger than the network's input as is usual: 256 pixels for 224.
_MARGIN: Final = 256 / 224


@final
@dataclass(frozen=True)
class Files:
    """The pictures of one split, by path, and the class of each by number."""

    paths: list[Path]
    classes: list[int]
    names: list[str]


def class_names(folder: Path) -> list[str]:
    """The classes: the folders in `folder`, or in its `train` folder where it has one."""
    top = _top(folder, "train") or folder
    if not top.is_dir():
        raise DataError(f"{top}: not a folder; it should hold a folder of pictures for each class")
    names = sorted(each.name for each in top.iterdir() if _is_class(each))
    if len(names) < 2:
        found = f"only {names[0]}" if names else "none"
        raise DataError(f"{top}: at least two folders are needed, one per class; there is {found}")
    return names


def files_of(folder: Path, split: Split, test_share: float) -> Files:
    """The pictures of a split: its own folder's, or a share of all that a hash of names picks."""
    names = class_names(folder)
    top = _top(folder, split)
    is_divided = _top(folder, "test") is not None and _top(folder, "train") is not None
    if not is_divided:
        top = _top(folder, "train") or folder
    assert top is not None
    _refuse_strangers(top, names)
    found = [
        (path, number)
        for number, name in enumerate(names)
        for path in _pictures(top / name)
        if is_divided or _is_test(path.relative_to(top), test_share) == (split == "test")
    ]
    if not found:
        raise DataError(f"{top}: no pictures to {split} with; looked for {_suffixes()}")
    return Files([path for path, _ in found], [number for _, number in found], names)


def decoded(path: Path, size: int, down: float, right: float) -> ByteArray:
    """A picture as [3, size, size]: made a little larger than that, then cut where it is said."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.draft("RGB", (size, size))  # JPEG can be decoded at half or a quarter the size
            scaled = _scaled(image.convert("RGB"), size)
    except Exception as error:  # Pillow raises what its decoders raise
        raise DataError(f"{path}: cannot be read as a picture: {error}") from error
    left = int(right * (scaled.width - size + 1))
    top = int(down * (scaled.height - size + 1))
    cut = scaled.crop((left, top, left + size, top + size))
    return np.asarray(cut, dtype=np.uint8).transpose(2, 0, 1)


def _scaled(image: Image, size: int) -> Image:
    """Resize so that the shorter side is a little longer than `size`."""
    from PIL.Image import Resampling

    factor = round(size * _MARGIN) / min(image.size)
    width, height = (max(size, round(side * factor)) for side in image.size)
    return image.resize((width, height), Resampling.BILINEAR, reducing_gap=2.0)


def _top(folder: Path, split: Split) -> Path | None:
    """The folder of a split, where there is one."""
    return next((folder / name for name in _SPLITS[split] if (folder / name).is_dir()), None)


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _refuse_strangers(top: Path, names: list[str]) -> None:
    strange = sorted(
        each.name for each in top.iterdir() if _is_class(each) and each.name not in names
    )
    if strange:
        raise DataError(f"{top / strange[0]}: a class that there are no pictures to train with")


def _pictures(folder: Path) -> Iterator[Path]:
    """Yield the pictures below a folder, sorted, so that every process has the same."""
    if folder.is_dir():
        yield from sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )


def _is_test(path: Path, test_share: float) -> bool:
    """Decide by the name alone, so that a picture stays in its split when others come."""
    return zlib.crc32(path.as_posix().encode()) < test_share * 2**32


def _suffixes() -> str:
    return ", ".join(sorted(SUFFIXES))
