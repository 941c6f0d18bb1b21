"""How well scores tell two classes apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt


def area_under_curve(scores: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """The chance that a positive row scores above a negative one, ties counted half.

    That is the area under the ROC curve. Not a number where there is only one class.
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else ordered
    # Equal scores share the mean of their ranks.
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(ordered))
    mean_ranks = np.repeat((firsts + lasts + 1) / 2, lasts - firsts)
    is_positive = labels[order] > 0.5
    num_positive = int(is_positive.sum())
    num_pairs = num_positive * (len(labels) - num_positive)
    if not num_pairs:
        return math.nan
    total = float(mean_ranks[is_positive].sum())
    return (total - num_positive * (num_positive + 1) / 2) / num_pairs
