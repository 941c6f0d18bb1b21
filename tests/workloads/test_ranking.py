"""The area under the curve, against counting pairs."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.workloads.ranking import area_under_curve


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30))
def test_it_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[int, bool]]):
    positives = [score for score, label in rows if label]
    negatives = [score for score, label in rows if not label]
    pairs = [(one > other) + (one == other) / 2 for one in positives for other in negatives]
    scores, labels = np.array([each[0] for each in rows]), np.array([each[1] for each in rows])
    found = area_under_curve(scores.astype(float), labels.astype(np.float32))
    if not pairs:
        assert math.isnan(found)
    else:
        assert abs(found - sum(pairs) / len(pairs)) < 1e-12
