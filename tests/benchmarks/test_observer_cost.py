"""Steps in windows with and without monitors, of the rows that a run keeps."""

from __future__ import annotations

import polars as pl
import pytest
from observer_cost import rate_in


def test_a_rate_is_that_of_the_windows_asked_for():
    # Ten steps a second in the first second, twenty in the next, in rows of a tenth.
    times = [number / 10 for number in range(21)]
    steps = [number if number <= 10 else 2 * number - 10 for number in range(21)]
    rows = pl.DataFrame({"seat": ["worker0"] * 21, "time_s": times, "worker_steps": steps})
    windows = [(0.0, 1.0, True), (1.0, 2.0, False)]
    assert rate_in(rows, windows, watched=True) == pytest.approx(10)
    assert rate_in(rows, windows, watched=False) == pytest.approx(20)
