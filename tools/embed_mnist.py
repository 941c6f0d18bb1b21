# ruff: noqa: INP001 - a script, not a package
"""Make the tenth of MNIST that ships with Paceline, and print its catalogue entries.

    python tools/embed_mnist.py [FOLDER]

Reads the full MNIST from the cache folder (`paceline data get mnist`), takes the first 600
training and the first 100 test images of each digit, keeps their original order, and writes
gzipped IDX files. The same input gives the same bytes (given the same zlib).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from paceline.workloads.data import embedded, idx, mnist
from paceline.workloads.data.checks import md5_of
from paceline.workloads.data.images import Split

NUM_DIGITS = 10
SPLITS: tuple[tuple[Split, str, int], ...] = (
    ("train", "train", embedded.NUM_TRAIN),
    ("test", "t10k", embedded.NUM_TEST),
)


def first_of_each(labels: npt.NDArray[np.uint8], num_each: int) -> npt.NDArray[np.int64]:
    """Positions of the first `num_each` of every digit, in their original order."""
    firsts = [np.flatnonzero(labels == digit)[:num_each] for digit in range(NUM_DIGITS)]
    return np.sort(np.concatenate(firsts))


def main(folder: Path) -> None:
    for split, prefix, num_rows in SPLITS:
        full = mnist.images(split, subset="full")
        rows = first_of_each(full.labels, num_rows // NUM_DIGITS)
        parts = {"images-idx3": full.images[rows], "labels-idx1": full.labels[rows]}
        for kind, array in parts.items():
            path = folder / f"{prefix}-{kind}-ubyte.gz"
            idx.write(path, array, zipped=True)
            entry = f'DataFile("{path.name}", {path.stat().st_size:_}, md5="{md5_of(path)}"),'
            sys.stdout.write(entry + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else embedded.FOLDER)
