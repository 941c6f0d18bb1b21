"""Rows of Criteo's shape for the tests of this folder."""

from dataclasses import dataclass

import numpy as np

from paceline.workloads.data.sparse import shape


@dataclass(frozen=True)
class Made:
    """Rows, as text and as what should come of them."""

    text: bytes
    labels: list[float]
    numbers: list[list[int]]

    @property
    def lines(self) -> list[bytes]:
        return self.text.splitlines()


def made(num_rows: int, num_features: int = 5000, seed: int = 0) -> Made:
    generator = np.random.default_rng(seed)
    fields = shape.drawn(num_rows, generator)
    labels = (generator.random(num_rows) < 0.3).astype(np.float32)
    numbers = shape.numbers_of(fields, num_features)
    return Made(fields.text(labels), labels.tolist(), numbers.tolist())
