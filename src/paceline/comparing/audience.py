"""Whom a comparison tells how it stands; whoever shows it decides how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from paceline.comparing.contest import ContestStanding
from paceline.workloads.data.sources.base import Progress


@final
@dataclass(frozen=True, kw_only=True)
class Audience:
    """What is called while a comparison goes on; by default nobody listens."""

    prepare: Progress = lambda *_: None
    """Data is made ready, before there is anything to compare."""
    say: Callable[[Sequence[str]], None] = lambda _: None
    """Sentences that say, before anything starts, how the runs are made."""
    watch: Callable[[ContestStanding], None] = lambda _: None
    """How far the whole is, a few times a second."""
