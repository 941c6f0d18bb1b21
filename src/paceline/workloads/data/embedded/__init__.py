"""A tenth of MNIST that ships with Paceline: 6,000 training and 1,000 test images.

The first 600 (100) of each digit, in their original order; made by `tools/embed_mnist.py`.
The md5 of a file here is of the file as it ships, gzipped.
"""

from __future__ import annotations

from pathlib import Path

from paceline.workloads.data.catalogue import DataFile

FOLDER = Path(__file__).parent
NUM_TRAIN = 6_000
NUM_TEST = 1_000
FILES: tuple[DataFile, ...] = (
    DataFile("train-images-idx3-ubyte.gz", 975_830, md5="ee652ceebfc574e819b65bac75bbf930"),
    DataFile("train-labels-idx1-ubyte.gz", 3_006, md5="fd145f2e4abee04bb84bf781c568a3fb"),
    DataFile("t10k-images-idx3-ubyte.gz", 158_184, md5="fc9a0fc6564a9600d3d1a99593468285"),
    DataFile("t10k-labels-idx1-ubyte.gz", 522, md5="0891a0b1eb8e69dfb26b9ba4baa6071d"),
)
