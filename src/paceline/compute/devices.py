"""Where models and batches are while gradients are computed, if not in the host's memory.

Experimental: `cuda` was never run on a GPU. What surrounds its kernels is tested through
`cpu-copy`, a second device of the same processor: its tensors are copied explicitly, and computing
with one that was not is an error, as it would be on a GPU.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch import Tensor

COPIED: Final = "cpu-copy"
CHOICES: Final = ("cuda", "cuda:0", COPIED)
_CUDA: Final = re.compile(r"cuda(:[0-9]{1,3})?")


def is_placed(name: str) -> bool:
    """Whether a device has memory of its own."""
    return name == COPIED or bool(_CUDA.fullmatch(name))


def note_of(name: str) -> str:
    """Say what a result must say of a device."""
    if _CUDA.fullmatch(name):
        return f"--device {name} is experimental: it was never run on a GPU by those who wrote it"
    return f"{name} is for tests: the processor, as a device with memory of its own"


class Device(ABC):
    """Memory of its own. Used by one thread."""

    @abstractmethod
    def there(self, tensor: Tensor) -> Tensor:
        """Give a copy of a tensor on the device."""

    @abstractmethod
    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copy values from one side to the other; both can be used when it returns."""

    def staging(self, like: Tensor) -> Tensor:
        """Make host memory that is quick to copy to and from."""
        return like.new_empty(like.shape)

    @contextlib.contextmanager
    def computing(self, near: Iterable[Tensor]) -> Iterator[None]:
        """Compute there; `near` are tensors of the host that nothing may touch meanwhile."""
        del near
        yield

    @contextlib.contextmanager
    def at_host(self) -> Iterator[None]:
        """Do something with tensors of the host in between."""
        yield


@final
class Cuda(Device):
    """A GPU of NVIDIA, or of AMD with the torch that is made for those."""

    def __init__(self, name: str) -> None:
        import torch

        if not torch.cuda.is_available():
            reason = "torch finds no GPU here, or was installed without support for any"
            raise SpecError([Problem("device", name, reason, ("cpu",))])
        self._device = torch.device(name)
        if (self._device.index or 0) >= torch.cuda.device_count():
            reason = f"there are {torch.cuda.device_count()} here"
            raise SpecError([Problem("device", name, reason)])

    def there(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device)

    def copy(self, source: Tensor, target: Tensor) -> None:
        target.copy_(source)  # it waits for both sides, unless it is told not to

    def staging(self, like: Tensor) -> Tensor:
        return like.new_empty(like.shape, pin_memory=True)


@final
class CopiedCpu(Device):
    """The processor as a second device: what was not copied there cannot be computed with."""

    def __init__(self) -> None:
        self._guard = _guard()

    def there(self, tensor: Tensor) -> Tensor:
        with self.at_host():
            return tensor.detach().clone()

    def copy(self, source: Tensor, target: Tensor) -> None:
        with self.at_host():
            target.copy_(source)

    @contextlib.contextmanager
    def computing(self, near: Iterable[Tensor]) -> Iterator[None]:
        self._guard.near = {each.untyped_storage().data_ptr() for each in near if each.numel()}
        with self._guard:
            yield

    @contextlib.contextmanager
    def at_host(self) -> Iterator[None]:
        before, self._guard.near = self._guard.near, set()
        try:
            yield
        finally:
            self._guard.near = before


def _guard() -> Any:
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Guard(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Sees each operation of torch, those of back-propagation too."""

        near: set[int]

        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            del types
            for each in tree_leaves((args, kwargs)) if self.near else ():
                if isinstance(each, Tensor) and each.untyped_storage().data_ptr() in self.near:
                    raise RuntimeError(f"{func}: a tensor of the host, and others on {COPIED}")
            return func(*args, **(kwargs or {}))

    made = Guard()  # type: ignore[no-untyped-call]
    made.near = set()
    return made


def device_of(name: str) -> Device:
    """Make a device that is there; raises `SpecError` where it is not."""
    return CopiedCpu() if name == COPIED else Cuda(name)
