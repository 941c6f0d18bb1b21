"""CIFAR-10 kept as pictures: six lossless PNG files, and the labels as JSON.

Each PNG has 10,000 rows, one image a row: its 1,024 pixels in reading order, RGB. The result is
the authors' binary layout, and its md5 is the authors', so nothing was lost on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import DataError
from paceline.workloads.data.catalogue import DataFile

if TYPE_CHECKING:  # numpy and Pillow are imported where they are used: the command line loads us
    import numpy as np
    import numpy.typing as npt

NUM_PIXELS = 32 * 32
NUM_ROWS = 10_000
NUM_CLASSES = 10
# Spelled as the package spells them.
TRAIN_LABELS = "train_lables.json"
TEST_LABELS = "test_lables.json"


def is_layout(folder: Path) -> bool:
    return (folder / TRAIN_LABELS).is_file() and (folder / "test_batch.png").is_file()


def names_needed(wanted: Sequence[DataFile]) -> tuple[str, ...]:
    """The files of the package that the wanted .bin files are made of."""
    return (*(_png_name(file) for file in wanted), TRAIN_LABELS, TEST_LABELS)


def convert(folder: Path, wanted: Sequence[DataFile], staging: Path) -> Iterator[DataFile]:
    """Write each wanted .bin file into `staging`; yields each one when it is written."""
    import numpy as np

    for file in wanted:
        rows = np.empty((NUM_ROWS, 1 + 3 * NUM_PIXELS), dtype=np.uint8)
        rows[:, 0] = _labels(folder, file)
        pixels = _pixels(folder / _png_name(file))
        rows[:, 1:] = pixels.transpose(0, 2, 1).reshape(NUM_ROWS, -1)  # to planes R, G, B
        rows.tofile(staging / file.name)
        yield file


def _png_name(file: DataFile) -> str:
    return Path(file.name).with_suffix(".png").name


def _pixels(path: Path) -> npt.NDArray[np.uint8]:
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    unreadable = (UnidentifiedImageError, Image.DecompressionBombError)
    try:
        with Image.open(path, formats=("PNG",)) as picture:
            # Looked at before anything is decoded: the header tells both.
            if picture.size != (NUM_PIXELS, NUM_ROWS) or picture.mode != "RGB":
                raise DataError(
                    f"{path.name}: {picture.size} {picture.mode},"
                    f" should be {(NUM_PIXELS, NUM_ROWS)} RGB"
                )
            return np.asarray(picture)
    except (*unreadable, OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path.name}: cannot be read as PNG: {error}") from error


def _labels(folder: Path, file: DataFile) -> npt.NDArray[np.uint8]:
    import numpy as np

    name = TEST_LABELS if file.name.startswith("test") else TRAIN_LABELS
    first = 0 if name == TEST_LABELS else (int(file.name.split("_")[-1][0]) - 1) * NUM_ROWS
    try:
        labels = json.loads((folder / name).read_text("utf-8"))[first : first + NUM_ROWS]
        row = np.array(labels, dtype=np.uint8)
    except (OSError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise DataError(f"{name}: cannot be read as a list of labels: {error}") from error
    if row.shape != (NUM_ROWS,) or row.max() >= NUM_CLASSES:
        raise DataError(f"{name}: not {NUM_ROWS:,} labels below {NUM_CLASSES} for {file.name}")
    return row
