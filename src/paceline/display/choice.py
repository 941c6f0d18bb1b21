"""Which progress is shown: asked for, or what somebody expects where the program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from paceline.comparing.audience import Audience
from paceline.engine.progress import RunView
from paceline.spec import RunSpec

ProgressChoice = bool | None
"""True: shown. False: silent. None: shown in a notebook, silent elsewhere."""


def watching(
    spec: RunSpec, progress: ProgressChoice
) -> AbstractContextManager[Callable[[RunView], None]]:
    """Give a function to call with each view of a run."""
    from paceline.display import live, notebooks

    in_notebook = notebooks.is_notebook()
    if not _is_shown(progress, in_notebook):
        return contextlib.nullcontext(lambda _: None)
    return notebooks.watching(spec) if in_notebook else live.watching(spec)


def following(progress: ProgressChoice) -> AbstractContextManager[Audience]:
    """Give whom a comparison tells how it stands."""
    from paceline.display import contests, notebooks

    in_notebook = notebooks.is_notebook()
    if not _is_shown(progress, in_notebook):
        return contextlib.nullcontext(Audience())
    return notebooks.following() if in_notebook else contests.following()


def _is_shown(progress: ProgressChoice, in_notebook: bool) -> bool:
    return in_notebook if progress is None else progress
