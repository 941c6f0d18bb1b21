"""What became of gradients that leave in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class BucketTotals:
    """A group of gradients that leaves as soon as back-propagation has finished it."""

    num_bytes: int
    start_s: float
    """When its exchange began, counted from the start of the step: the mean over all steps."""
    run_s: float
    """How long it was being exchanged, in all."""
    wait_s: float
    """How much of that the worker had nothing else to do, in all."""
