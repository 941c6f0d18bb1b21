"""How many rows of its table a batch touches: expected from how often each comes in the data."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paceline.arithmetic.rows import expected_distinct, grown_distinct

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.spec import RunSpec

_SAMPLED: Final = 4096
"""How many samples are looked at."""
_LEAST_TIMES: Final = 4
"""Of more than a quarter of those the rows that come seldom are not known: the number is grown."""


def touched_rows(spec: RunSpec) -> int:
    """Expect the different rows of a batch; raises `DataError` where the data is not here."""
    import torch

    num_rows = spec.num_rows()
    order = spec.order_of(num_rows)
    data = spec.workload.data("train", getattr(torch, spec.dtype))
    one_by_one = data.batches(replace(order, batch=1, num_workers=1), 0)
    touched = (data.touched(each) for each in itertools.islice(one_by_one, min(_SAMPLED, num_rows)))
    rows = expected_rows([each for each in touched if each is not None], order.batch)
    return max(1, round(rows))


def expected_rows(samples: list[Tensor], batch: int) -> float:
    """Expect how many rows so many samples touch together, given some and the rows of each."""
    import torch

    if not samples:
        return 0.0
    entries = torch.cat(samples)
    counts = torch.unique(entries, return_counts=True)[1].tolist()
    known = min(batch, max(1, len(samples) // _LEAST_TIMES))
    num_entries = round(known * len(entries) / len(samples))
    rows, of_half = (expected_distinct(counts, each) for each in (num_entries, num_entries // 2))
    return grown_distinct(rows, of_half, batch / known)
