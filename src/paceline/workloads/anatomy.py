"""What a model is made of: layers, shapes, parameters, multiply-adds, and how data flows.

One row goes through the model, and every operation is seen. Initial values are not drawn, products
and convolutions not computed: only their shapes matter, and memory that nobody touches is not even
there. torch's meta device would leave out the rest too, but its first use imports torch's compiler,
which takes far longer.
"""

from __future__ import annotations

import contextlib
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from paceline.training.answers import model_of
from paceline.training.rows import Rows
from paceline.workloads.base import Workload

LossFunction = Callable[[nn.Module, Sequence[Tensor]], Tensor]
Shape = tuple[int, ...]

FLOAT_BYTES: Final = 4
_aten: Final = torch.ops.aten
_DRAWS: Final = {_aten.normal_.default, _aten.uniform_.default}
# What the data flow is easier to read without.
_UNSEEN: Final = {_aten.detach.default}


@final
@dataclass(frozen=True, kw_only=True)
class Layer:
    """A module that computes, or that has parameters of its own; shapes are of one row."""

    name: str
    kind: str
    inputs: Shape | None
    output: Shape | None
    num_parameters: int
    multiply_adds: int


@final
@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation, parameter or input of the data flow, and whose results it takes."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    shape: Shape


@final
@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """A model, taken apart."""

    layers: tuple[Layer, ...]
    nodes: tuple[Operation, ...]
    num_parameters: int
    multiply_adds: int
    """For one row, forward; back-propagation takes about twice as many."""

    @property
    def num_bytes(self) -> int:
        """Of the parameters as float32."""
        return FLOAT_BYTES * self.num_parameters


def examine(workload: Workload) -> Anatomy:
    """Take apart the model that a workload would train."""
    return dissect(undrawn_model(workload), workload.loss, workload.example())


def undrawn_model(workload: Workload) -> nn.Module:
    """Make a workload's model without its initial values: whatever the memory holds."""
    with _NoDraws():  # type: ignore[no-untyped-call]
        return model_of(workload)


def dissect(model: nn.Module, loss: LossFunction, batch: Sequence[Tensor]) -> Anatomy:
    """Take apart a model by computing the loss of one row."""
    was_training = model.training
    model.eval()  # batch normalisation has no statistics of a single row
    for table in model.modules():
        if isinstance(table, Rows):  # a row touches at most as many as it has entries
            table.window = torch.zeros(max(map(Tensor.numel, batch)), table.width)
    trace = _Trace(model, batch)
    try:
        with torch.no_grad(), trace.hooks(), trace:
            loss(model, batch)
    finally:
        model.train(was_training)
    layers = trace.layers()
    return Anatomy(
        layers=tuple(layers),
        nodes=tuple(trace.nodes),
        num_parameters=sum(layer.num_parameters for layer in layers),
        multiply_adds=sum(layer.multiply_adds for layer in layers),
    )


class _Mode(TorchDispatchMode, ABC):  # type: ignore[no-untyped-call]
    """Sees every operation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from importing its compiler, a second and a half, only to leave us alone."""
        return False


@final
class _NoDraws(_Mode):  # type: ignore[no-untyped-call]
    """Leaves initial values out, also where they are laid out anew."""

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        if func in _DRAWS:
            return args[0]
        layout = (kwargs or {}).get("memory_format")
        is_copy = func is _aten._to_copy.default  # noqa: SLF001 - that is its name
        if is_copy and layout is not None and args[0].is_floating_point():
            return torch.empty_like(args[0], memory_format=layout)
        return func(*args, **(kwargs or {}))


@final
class _Trace(_Mode):  # type: ignore[no-untyped-call]
    """Notes every operation, and inside which module it happens."""

    def __init__(self, model: nn.Module, batch: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Operation] = []
        self._modules = dict(model.named_modules())
        self._inside = [""]
        self._multiply_adds: Counter[str] = Counter()
        self._shapes: dict[str, tuple[Shape | None, Shape | None]] = {}
        self._num_named: Counter[str] = Counter()
        self._makers: dict[int, str] = {}
        self._alive: list[Tensor] = []  # a tensor's id may be given again once it is gone
        for index, column in enumerate(batch):
            self._add(f"batch/{index}", "Input", (), [column])
        for name, parameter in model.named_parameters():
            self._add(name.replace(".", "/"), "Parameter", (), [parameter])

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        shortcut = _SHORTCUTS.get(func)
        result = None if shortcut is None else shortcut(*args, **(kwargs or {}))
        if result is None:
            result = func(*args, **(kwargs or {}))
        made = _tensors(result)
        inside = self._inside[-1]
        self._multiply_adds[inside] += (
            _of_rows(func, made)
            if isinstance(self._modules[inside], Rows)
            else _multiply_adds(func, args, kwargs or {}, result)
        )
        if func in _UNSEEN:
            self._alive += made
            maker = self._makers.get(id(args[0]), "")
            self._makers.update({id(each): maker for each in made})
            return result
        takes = [self._makers.get(id(each)) for each in _tensors((args, kwargs))]
        kind = func.overloadpacket.__name__
        scope = "/".join(filter(None, [self._inside[-1].replace(".", "/"), kind]))
        self._add(scope, kind, tuple(dict.fromkeys(filter(None, takes))), made)
        return result

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Know which module is being computed, while inside."""
        handles = []
        for name, module in self._modules.items():
            enter, leave = self._hooks_of(name)
            handles += [
                module.register_forward_pre_hook(enter),
                module.register_forward_hook(leave),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def layers(self) -> list[Layer]:
        """Give the modules in the order they were computed, those that were not at the end."""
        own = _own_parameters(self._modules)
        order = [*self._shapes, *(name for name in self._modules if name not in self._shapes)]
        return [
            self._layer(name, own[name])
            for name in order
            if own[name] or self._multiply_adds[name] or self._is_leaf(name)
        ]

    def _layer(self, name: str, num_parameters: int) -> Layer:
        inputs, output = self._shapes.get(name, (None, None))
        return Layer(
            name=name or "(model)",
            kind=type(self._modules[name]).__name__,
            inputs=inputs,
            output=output,
            num_parameters=num_parameters,
            multiply_adds=self._multiply_adds[name],
        )

    def _is_leaf(self, name: str) -> bool:
        has_children = any(True for _ in self._modules[name].children())
        return name in self._shapes and not has_children

    def _hooks_of(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def enter(_: nn.Module, args: object) -> None:
            self._inside.append(name)
            self._shapes.setdefault(name, (_row_shape(args), None))

        def leave(_: nn.Module, __: object, output: object) -> None:
            self._inside.pop()
            self._shapes[name] = (self._shapes[name][0], _row_shape(output))

        return enter, leave

    def _add(self, name: str, kind: str, inputs: tuple[str, ...], made: list[Tensor]) -> None:
        """Note a node under a name of its own, and that it is what made these tensors."""
        self._num_named[name] += 1
        if self._num_named[name] > 1:
            name = f"{name}_{self._num_named[name]}"
        shape = tuple(made[0].shape) if made else ()
        self.nodes.append(Operation(name=name, kind=kind, inputs=inputs, shape=shape))
        self._alive += made
        self._makers.update({id(each): name for each in made})


def _own_parameters(modules: Mapping[str, nn.Module]) -> dict[str, int]:
    """Count the values of each module's own parameters; one that is shared counts once."""
    seen: set[nn.Parameter] = set()
    counts = {}
    for name, module in modules.items():
        own = set(module.parameters(recurse=False)) - seen
        seen |= own
        counts[name] = sum(each.numel() for each in own)
        if isinstance(module, Rows) and module.held is None:
            counts[name] += module.num_rows * module.width
    return counts


def _convolved(inputs: Tensor, weight: Tensor, _: Tensor | None, *how: Any) -> Tensor | None:
    """Make room for the result of a convolution."""
    stride, padding, dilation, is_transposed, _, groups = how
    if is_transposed or inputs.shape[1] != weight.shape[1] * groups:
        return None
    sizes = [
        (size + 2 * pad - gap * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, gap in zip(
            inputs.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    return inputs.new_empty(inputs.shape[0], weight.shape[0], *sizes)


def _multiplied(left: Tensor, right: Tensor) -> Tensor | None:
    fits = left.shape[1] == right.shape[0]
    return left.new_empty(left.shape[0], right.shape[1]) if fits else None


# What takes the time of a forward pass and whose values nobody asks for. None: leave it to torch,
# which also says what is wrong.
_SHORTCUTS: Final[dict[Any, Callable[..., Tensor | None]]] = {
    _aten.convolution.default: _convolved,
    _aten.mm.default: _multiplied,
    _aten.addmm.default: lambda _, left, right, **__: _multiplied(left, right),
}


def _multiply_adds(func: Any, args: Any, kwargs: Mapping[str, Any], result: object) -> int:
    count = flop_registry.get(func.overloadpacket)
    # torch counts a multiplication and an addition as two.
    return 0 if count is None else int(count(*args, **kwargs, out_val=result)) // 2


def _of_rows(func: Any, made: list[Tensor]) -> int:
    """A table's rows are taken, each value is multiplied once and added once."""
    if func is not _aten.index_select.default:
        return 0
    return sum(each.numel() for each in made if each.is_floating_point())


def _tensors(values: object) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


def _row_shape(values: object) -> Shape | None:
    found = _tensors(values)
    return tuple(found[0].shape[1:]) if found else None
