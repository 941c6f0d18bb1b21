"""A training script as the thing that is run: `paceline run train.py -- --lr 0.1`.

The script makes model, data and optimizer itself, in every seat. It meets the run where it calls
`paceline.wrap` (`engine/scripted/`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, final

from paceline.errors import NotHere, Problem
from paceline.system.named_files import found_at
from paceline.training.optim import Optimizer
from paceline.workloads.base import ALL_CORES, Data, Supply, Workload

if TYPE_CHECKING:
    import torch
    from torch import nn


@final
class Script(Workload):
    """An ordinary training script, run once in each worker."""

    file: str
    """Its path; the workload's name is the same."""
    args: tuple[str, ...] = ()
    """Its own arguments: what stands after `--` on the command line."""

    is_script: ClassVar[bool] = True
    default_batch: ClassVar[int] = 1
    most_threads: ClassVar[int | None] = ALL_CORES

    @property
    def name(self) -> str:
        return self.file

    def problems(self) -> Iterator[Problem]:
        path = found_at(self.file)
        try:
            compile(path.read_bytes(), str(path), "exec")
        except OSError as error:
            yield Problem("workload", self.file, f"cannot be read: {error.strerror}")
        except (SyntaxError, ValueError) as error:
            where = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            yield Problem("workload", self.file, f"not a Python script: {where}{said}")

    def model(self) -> nn.Module:
        self._refuse("a model")

    def data(self, split: str, dtype: torch.dtype) -> Data:
        del split, dtype
        self._refuse("rows")

    @property
    def calls_wrap(self) -> bool:
        """Whether `wrap` stands in it; if not, it can only exchange by itself."""
        return any(
            isinstance(node, ast.Attribute | ast.alias)
            and (node.attr if isinstance(node, ast.Attribute) else node.name) == "wrap"
            for node in ast.walk(ast.parse(found_at(self.file).read_bytes()))
        )

    def _refuse(self, what: str) -> NoReturn:
        raise NotHere(f"{self.file} is a script: it has {what} only while it runs")

    def supply(self) -> Supply:
        return Supply(data="the script's own")


_ITS_OWN: Final = ("batch", "optimizer", "epochs", "eval_every", "eval_samples")


def script_problems(spec: Any) -> Iterator[Problem]:
    """Say what of a `RunSpec` a script decides for itself, and what cannot be done with one."""
    theirs = "the script decides; give it as an argument of its own, after --"
    given = [each for each in _ITS_OWN if getattr(spec, each) is not None]
    for each in given + ["dtype"] * (spec.dtype != "float32"):
        value = getattr(spec, each)
        yield Problem(each, value.name if isinstance(value, Optimizer) else value, theirs)
    if spec.device != "cpu":
        yield Problem("device", spec.device, "a script computes by itself, on the CPU")
    if spec.checkpoint_every is not None:
        reason = "a script cannot be resumed: what its own variables hold is not known"
        yield Problem("checkpoint_every", spec.checkpoint_every, reason)
    if spec.on_failure == "replace":
        reason = "a worker of a script cannot be started again"
        choices = (
            ("abort", "go-on", "restart") if spec.strategy.scripts_survive else ("abort", "restart")
        )
        yield Problem("on_failure", spec.on_failure, reason, choices)
    if spec.strategy.scripts is None:
        reason = "this strategy applies updates itself, so it cannot run a script"
        yield Problem("strategy", spec.strategy.name, reason)
    if spec.cluster.shares_process and (spec.num_workers > 1 or spec.strategy.num_servers):
        reason = "each copy of a script needs a process of its own"
        yield Problem("cluster", spec.cluster.name, reason, ("local",))
