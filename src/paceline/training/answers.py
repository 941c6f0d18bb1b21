"""What the methods of a workload must take and give; anything else is answered with just that."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeVar

from paceline.errors import Problem, WorkloadError
from paceline.training.metrics import RESERVED

if TYPE_CHECKING:
    from torch import Tensor, nn

T = TypeVar("T")

_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "model": (),
    "data": ("split", "dtype"),
    "loss": ("model", "batch"),
    "train": ("session",),
    "metrics": ("model", "batch"),
    "joined_metrics": ("columns",),
}


def expect(kind: type[T], value: object, where: str, expected: str) -> T:
    """Give back what a method returned; raises `WorkloadError` if it is of another kind."""
    if not isinstance(value, kind):
        raise WorkloadError(where, expected, shown(value))
    return value


def call(workload: object, method: str) -> str:
    """Name a method as the user knows it."""
    return f"{type(workload).__name__}.{method}"


def shown(value: object) -> str:
    """Say briefly what a value is: its type, and of tensors and containers a little more."""
    import torch

    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        kinds = ", ".join(type(each).__name__ for each in value[:3])
        more = ", ..." if len(value) > 3 else ""
        return f"a {type(value).__name__} of {len(value)} ({kinds}{more})"
    if value is None:
        return "None; is a return missing?"
    if isinstance(value, float | int | str):
        return f"the {type(value).__name__} {value!r}"[:80]
    return f"an object of type {type(value).__name__}"


def signature_problems(workload: Any) -> Iterator[Problem]:
    """Find methods that cannot be called as they will be, and directions that are none."""
    for name, arguments in _TAKES.items():
        if name in workload.__dataclass_fields__:
            continue  # `train` may be a path: its loop is then the usual one
        signature = inspect.signature(getattr(workload, name))
        try:
            signature.bind(*arguments)
        except TypeError:
            wanted = ", ".join(("self", *arguments))
            reason = f"must be defined as {name}({wanted})"
            yield Problem(f"workload.{name}", call(workload, f"{name}{signature}"), reason)
    for metric, better in dict(workload.better).items():
        if better not in {"higher", "lower"}:
            reason = "says neither that higher nor that lower is better"
            yield Problem(f"workload.better[{metric!r}]", better, reason, ("higher", "lower"))


def model_of(workload: Any) -> nn.Module:
    """Make a workload's model."""
    from torch import nn

    return expect(nn.Module, workload.model(), call(workload, "model()"), "a torch.nn.Module")


def check_loss(loss: object, where: str) -> None:
    """See whether a loss can be back-propagated."""
    from torch import Tensor

    expected = "the batch's mean loss as a tensor with one value, computed from the model's outputs"
    tensor: Tensor = expect(Tensor, loss, where, expected)
    if tensor.numel() != 1:
        raise WorkloadError(where, expected, shown(tensor))
    if not tensor.requires_grad:
        raise WorkloadError(where, expected, "one that needs no gradient; is it detached?")


def metrics_of(
    workload: object, given: object, num_rows: int, *, joins: bool
) -> dict[str, float | Tensor]:
    """Read what `metrics` gave for a batch: means as numbers, values of each row as tensors.

    Without `joins` nothing is made of the latter, and so there may be none.
    """
    where = call(workload, "metrics(model, batch)")
    return {
        name: _metric(value, f"{where}[{name!r}]", num_rows, joins=joins)
        for name, value in _named(given, where).items()
    }


def joined_of(workload: object, given: object) -> dict[str, float]:
    """Read what `joined_metrics` gave."""
    where = call(workload, "joined_metrics(columns)")
    return {
        name: _number(value, f"{where}[{name!r}]", "a number")
        for name, value in _named(given, where).items()
    }


def _named(given: object, where: str) -> Mapping[str, Any]:
    """Check that something is metrics by name, and that none has a name that is taken."""
    if not isinstance(given, Mapping):
        raise WorkloadError(where, "a dict of numbers, such as {'mae': 0.2}", shown(given))
    for name in given:
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise WorkloadError(where, "metrics named by words", f"the name {name!r}")
        if name in RESERVED:
            taken = ", ".join(RESERVED)
            expected = f"metrics by other names than Paceline's own columns ({taken})"
            raise WorkloadError(where, expected, f"a metric named {name!r}")
    return given


def _metric(value: object, where: str, num_rows: int, *, joins: bool) -> float | Tensor:
    from torch import Tensor

    if not isinstance(value, Tensor) or value.dim() == 0:
        return _number(value, where, "a number: the mean over the batch")
    if not joins:
        expected = "a number, the mean over the batch, unless joined_metrics is defined too"
        raise WorkloadError(where, expected, shown(value))
    if value.shape != (num_rows,):
        expected = f"a number, or one value for each of the {num_rows} rows of the batch"
        raise WorkloadError(where, expected, shown(value))
    return value


def _number(value: object, where: str, expected: str) -> float:
    from torch import Tensor

    if isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex():
        return float(value)
    number: Real = expect(Real, value, where, expected)  # type: ignore[type-abstract]
    return float(number)
