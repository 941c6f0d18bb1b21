"""scikit-learn's LogisticRegression on the dense rows of MNIST, to a log loss on the test rows.

Fits anew with more iterations of L-BFGS until the loss is reached, and times that last fit:
going on from an earlier one would lose what L-BFGS has learnt of the curvature.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from peers.common import IMAGES_HEADER_BYTES, LABELS_HEADER_BYTES, NUM_PIXELS, mnist

FEWEST_ITERATIONS = 4
MOST_ITERATIONS = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--log-loss", type=float, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, classes = mnist(arguments.data)
    images = arguments.data / "t10k-images-idx3-ubyte"
    labels = arguments.data / "t10k-labels-idx1-ubyte"
    test = np.fromfile(images, np.uint8, offset=IMAGES_HEADER_BYTES).reshape(-1, NUM_PIXELS)
    test_rows = test.astype(np.float32) / np.float32(255)
    test_classes = np.fromfile(labels, np.uint8, offset=LABELS_HEADER_BYTES)
    iterations, loss, seconds = FEWEST_ITERATIONS, float("inf"), 0.0
    while loss > arguments.log_loss and iterations <= MOST_ITERATIONS:
        model = LogisticRegression(C=np.inf, max_iter=iterations)
        began = time.perf_counter()
        model.fit(rows, classes)
        seconds = time.perf_counter() - began
        loss = float(log_loss(test_classes, model.predict_proba(test_rows)))
        iterations = iterations * 5 // 4
    setting = f"LogisticRegression, {model.n_iter_[0]} iterations of L-BFGS, 2 threads"
    print(json.dumps({"seconds": seconds, "log_loss": loss, "setting": setting}))


if __name__ == "__main__":
    main()
