"""Steps that a script makes before `paceline.wrap`, which are no part of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from paceline.errors import LoopError


@final
class EarlySteps:
    """Counts the steps of all optimizers until something is wrapped."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count while the block runs, or until `refuse` was called."""
        self._handle = register_optimizer_step_post_hook(self._note)
        try:
            yield
        finally:
            self._handle.remove()

    def _note(self, optimizer: Optimizer, arguments: Any, options: Any) -> None:
        del arguments, options
        self._counts[id(optimizer)] += 1

    def refuse(self, optimizers: Sequence[Optimizer]) -> None:
        """Count no more; raises `LoopError` where one of these has stepped already."""
        self._handle.remove()
        for each in optimizers:
            if num_steps := self._counts[id(each)]:
                raise LoopError(
                    f"paceline.wrap was called after {num_steps} steps of {type(each).__name__}, "
                    "which each worker made by itself: call it before the training loop"
                )
