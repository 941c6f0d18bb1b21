"""Sparse models: how many rows of a table a batch touches, and what of them travels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

ROW_NUMBER_BYTES: Final = 8


@final
@dataclass(frozen=True, kw_only=True)
class RowTraffic:
    """What a worker moves of a table in each step."""

    num_rows: float
    """Different rows that its batch touches."""
    row_bytes: int
    table_bytes: int = 0
    """Of all rows: what moves where rows do not move one by one."""

    @property
    def sent_bytes(self) -> float:
        """Row numbers to ask for, then row numbers and gradients."""
        return self.num_rows * (2 * ROW_NUMBER_BYTES + self.row_bytes)

    @property
    def received_bytes(self) -> float:
        return self.num_rows * self.row_bytes


def expected_distinct(frequencies: Sequence[float], num_draws: int) -> float:
    """Expect how many different values so many draws bring, each value with its frequency.

    `frequencies` need not add up to 1: they are counts, as the data has them.
    """
    total = sum(frequencies)
    if not total or not num_draws:
        return 0.0
    missed = (
        num_draws * math.log1p(-each / total) if each < total else -math.inf for each in frequencies
    )
    return sum(-math.expm1(each) if each > -math.inf else 1.0 for each in missed)


def grown_distinct(num_rows: float, of_half: float, times: float) -> float:
    """Expect the rows that `times` as many entries touch as those that touch `num_rows`.

    By Heaps' law, as for any skewed data of whose rare values too little was seen: the number grows
    by a power of the entries, the one by which it grew last, from the rows that half of them touch.
    """
    if times == 1 or not num_rows or not of_half:
        return num_rows * times
    return float(num_rows * times ** math.log2(num_rows / of_half))
