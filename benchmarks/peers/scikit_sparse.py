"""scikit-learn's SGDClassifier.partial_fit on converted rows; prints rows per second.

    .venv-peers/bin/python benchmarks/peers/scikit_sparse.py ROWS.u4 NUM_FEATURES CALL_ROWS SECONDS

The matrices of the calls are made before the clock starts.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

COLUMNS = 39
MOST_ROWS = 400_000


def main() -> None:
    path, num_features, call_rows, seconds = sys.argv[1], *map(int, sys.argv[2:5])
    rows = np.memmap(path, "<u4", "r").reshape(-1, COLUMNS + 1)[: max(MOST_ROWS, call_rows)]
    calls = []
    for start in range(0, len(rows) - call_rows + 1, call_rows):
        part = rows[start : start + call_rows]
        indices = part[:, 1:].astype(np.int32).ravel()
        starts = np.arange(0, len(indices) + 1, COLUMNS, dtype=np.int32)
        shape = (call_rows, num_features)
        matrix = csr_matrix((np.ones(len(indices)), indices, starts), shape)
        calls.append((matrix, part[:, 0].astype(np.int64)))
    # No penalty: with one, each call scales all weights, and is slower still.
    model = SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=0.01)
    model.partial_fit(*calls[0], classes=[0, 1])
    began, num_rows, number = time.perf_counter(), 0, 0
    while time.perf_counter() - began < seconds:
        model.partial_fit(*calls[number % len(calls)])
        num_rows += call_rows
        number += 1
    print(num_rows / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
