"""A workload made of functions: a model, a Dataset and a torch optimizer, without a loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from paceline.catalogue import load
from paceline.errors import Problem, SpecError, WorkloadError, users_traceback
from paceline.system.named_files import name_of
from paceline.training.answers import shown
from paceline.training.optim import Optimizer
from paceline.workloads.base import FUNCTIONS, Batch, Data, Split, Supply, Workload

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


@final
class FromTorch(Workload):
    """Functions by name, such as `train.py:make_model`: each process imports and calls them."""

    model_fn: str
    """Gives the model."""
    dataset_fn: str
    """Takes `train` or `test`, and gives a Dataset whose rows can be taken by number."""
    optimizer_fn: str = "torch.optim:SGD"
    """Takes parameters, and gives a torch optimizer, whose class and options are used."""
    loss_fn: str = "torch.nn.functional:cross_entropy"
    """Takes the model's outputs and what is wanted."""

    def problems(self) -> Iterator[Problem]:
        for field in FUNCTIONS:
            path = getattr(self, field)
            try:
                found = _function(path)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module raises
                reason = f"cannot be imported: {type(error).__name__}: {error}"
                yield Problem(f"workload.{field}", path, reason)
                continue
            if not callable(found):
                yield Problem(f"workload.{field}", path, f"not a function, but {shown(found)}")

    def model(self) -> nn.Module:
        return cast("nn.Module", _function(self.model_fn)())

    def usual_optimizer(self) -> Optimizer:
        return _described(self.optimizer_fn)

    def data(self, split: Split, dtype: torch.dtype) -> Data:
        where = f"{self.dataset_fn}({split!r})"
        dataset = _function(self.dataset_fn)(split)
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            expected = "a Dataset that has a length, and whose rows can be taken by number"
            raise WorkloadError(where, expected, shown(dataset))
        return DatasetRows(dataset, dtype, where)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        inputs, wanted = batch
        return cast("Tensor", _function(self.loss_fn)(model(inputs), wanted))

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        inputs, wanted = batch
        outputs = model(inputs)
        found = {"loss": _function(self.loss_fn)(outputs, wanted)}
        if outputs.dim() == 2 and wanted.dim() == 1 and not wanted.is_floating_point():
            found["accuracy"] = (outputs.argmax(1) == wanted).double().mean()
        return found

    def supply(self) -> Supply:
        return Supply(data=self.dataset_fn)


@final
class DatasetRows(Data):
    """The rows of a Dataset, put together as a DataLoader does, real numbers of one dtype."""

    def __init__(self, dataset: Any, dtype: torch.dtype, where: str) -> None:
        self._dataset = dataset
        self._dtype = dtype
        self._where = where
        self.origin = where

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, rows: Tensor) -> Batch:
        import torch
        from torch.utils.data import default_collate

        columns = default_collate([self._dataset[row] for row in rows.tolist()])
        if not isinstance(columns, list | tuple) or not all(
            isinstance(each, torch.Tensor) for each in columns
        ):
            raise WorkloadError(f"a row of {self._where}", "a tuple of tensors", shown(columns))
        real = self._dtype
        return [each.to(real) if each.is_floating_point() else each for each in columns]


@cache
def _described(path: str) -> Optimizer:
    """Describe the optimizer that a function makes: of any parameters, so that none are drawn."""
    import torch
    from torch.optim import Optimizer as Torchs

    from paceline.training.torch_optim import description_of

    given = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 2), (2,))]
    try:
        made = _function(path)(iter(given))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        where = users_traceback(error)
        problem = Problem("workload.optimizer_fn", path, reason, traceback=where)
        raise SpecError([problem]) from error
    if not isinstance(made, Torchs):
        expected = "a torch optimizer of the parameters that it was given"
        raise WorkloadError(f"{path}(parameters)", expected, shown(made))
    found = cast("Optimizer", description_of(made))
    if problems := [*found.problems()]:
        raise SpecError(problems)
    return found


@cache
def _function(path: str) -> Callable[..., Any]:
    return cast("Callable[..., Any]", load(path))


def from_torch(functions: Mapping[str, object]) -> FromTorch:
    """Make the workload of functions, given themselves or by name. Raises `SpecError`."""
    problems: list[Problem] = []
    names: dict[str, str] = {}
    for field, function in functions.items():
        name = function if isinstance(function, str) else _name(function)
        if name is None:
            reason = "must be a function or a class of a module, which each process can import"
            problems.append(Problem(f"workload.{field}", shown(function), reason))
        else:
            names[field] = name
    if problems:
        raise SpecError(problems)
    return FromTorch(**names)


def _name(function: object) -> str | None:
    """Name a function so that another process can import it; None: none can."""
    name, module_name = (getattr(function, each, None) for each in ("__qualname__", "__module__"))
    module = sys.modules.get(module_name or "")
    if not isinstance(name, str) or "<" in name or module is None:
        return None
    file = getattr(module, "__file__", None)
    if module.__package__ or (module_name != "__main__" and file is None):
        return f"{module_name}:{name}"
    return f"{name_of(Path(file))}:{name}" if file else None
