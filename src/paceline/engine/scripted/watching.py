"""What a script does, seen without a line in it: batches, back-propagation, collectives, steps.

All of it through torch's own hooks and functions, and none of it changes what the script computes.
"""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any, Final, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from paceline.engine.scripted.loaders import rows_in

# What a script, or a library that it uses, calls to exchange something.
_COLLECTIVES: Final = (
    "_broadcast_coalesced",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
)


class Watched(ABC):
    """Hears what a script does."""

    @abstractmethod
    def starts(self) -> None:
        """The first step begins: a model is called, or back-propagation starts."""

    @abstractmethod
    def stepped(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped."""

    @abstractmethod
    def leaves_group(self) -> None:
        """The script is about to end its process group."""


@final
class Watch:
    """Sums of a script's time and rows, since they were last taken; and what it does, as told."""

    def __init__(self, watched: Watched, num_workers: int) -> None:
        self.load_ns = 0
        self.exchange_ns = 0
        self.num_samples = 0
        """Rows of the batches that were back-propagated, as far as a DataLoader gave them."""
        self.calls_ddp = False
        """Whether the step began in torch's DistributedDataParallel."""
        self.batch: int | None = None
        """Rows of the first batch."""
        self._watched = watched
        self._is_alone = num_workers == 1
        self._starts: Callable[[], None] | None = watched.starts
        self._depth = 0
        self._is_in_backward = False
        self._latest: Any = None
        self._training: weakref.WeakSet[Any] = weakref.WeakSet()
        self._waiting: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._undo: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Watch from now on."""
        after = register_optimizer_step_post_hook(self._after_step)
        before = register_module_forward_pre_hook(self._before_forward)
        self._stop_forward = before.remove
        self._undo += [after.remove, before.remove]
        self._replace(torch.autograd, "backward", self._backward)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._next)  # noqa: SLF001
        self._replace(dist.Work, "wait", self._collective)
        for name in _COLLECTIVES:
            self._replace_in_both(name, self._collective)
        self._replace_in_both("destroy_process_group", self._leaving)

    def end(self) -> None:
        """Leave torch as it was. Idempotent."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, by: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, by(original))
        self._undo.append(lambda: setattr(owner, name, original))

    def _replace_in_both(self, name: str, by: Callable[[Any], Any]) -> None:
        """In the two modules that torch has them in: its own code calls either."""
        if hasattr(distributed_c10d, name):
            original = getattr(distributed_c10d, name)
            made = by(original)
            for owner in (distributed_c10d, dist):
                if getattr(owner, name, None) is original:
                    self._replace(owner, name, lambda _: made)

    def start(self) -> None:
        """The first step begins, if it did not before; what was until then is not counted."""
        starts, self._starts = self._starts, None
        if starts is not None:
            self._stop_forward()
            starts()
            self.load_ns = self.exchange_ns = 0

    def _before_forward(self, module: nn.Module, inputs: Any) -> None:
        del inputs
        if not (torch.is_grad_enabled() and module.training):
            return
        self.calls_ddp = isinstance(module, DistributedDataParallel)
        if self.calls_ddp or self._is_alone or _is_sharded(module):
            self.start()

    def _after_step(self, optimizer: Optimizer, arguments: Any, options: Any) -> None:
        del arguments, options
        self._watched.stepped(optimizer)

    def _backward(self, original: Callable[..., None]) -> Callable[..., None]:
        """What follows the last gradient of a backward pass is DDP's wait for the others'."""

        @functools.wraps(original)
        def backward(tensors: Any, *arguments: Any, **options: Any) -> None:
            if self._is_in_backward:  # one inside of another, as checkpointing has it
                original(tensors, *arguments, **options)
                return
            self.start()
            self._note_training()
            self._is_in_backward, computed = True, []
            before, self._depth = self._depth, 0
            hooks = [*_at_the_end(tensors, lambda: computed.append(self._arrive()))]
            try:
                original(tensors, *arguments, **options)
            finally:
                self._is_in_backward, self._depth = False, before
                for hook in hooks:
                    hook.remove()
            if computed:
                self.exchange_ns += perf_counter_ns() - computed[0]

        return backward

    def _arrive(self) -> int:
        self._depth += 1  # collectives that are waited for now are part of this wait
        return perf_counter_ns()

    def _next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def next_batch(batches: Any) -> Any:
            began_ns = perf_counter_ns()
            batch = original(batches)
            self.load_ns += perf_counter_ns() - began_ns
            self._note_batch(batches._index_sampler, rows_in(batch))  # noqa: SLF001 - the loader's own
            return batch

        return next_batch

    def _note_batch(self, loader: Any, num_rows: int) -> None:
        """Count a batch; only of loaders whose batches are back-propagated, not of a test's."""
        self.batch = self.batch or num_rows
        try:
            self._latest = weakref.ref(loader)
        except TypeError:
            return
        if loader in self._training:
            self.num_samples += num_rows
        else:
            self._waiting[loader] = self._waiting.get(loader, 0) + num_rows

    def _note_training(self) -> None:
        loader = None if self._latest is None else self._latest()
        if loader is not None and loader not in self._training:
            self._training.add(loader)
            self.num_samples += self._waiting.pop(loader, 0)

    def _collective(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._depth:
                return original(*arguments, **options)
            self._depth += 1
            began_ns = perf_counter_ns()
            try:
                return original(*arguments, **options)
            finally:
                self._depth = max(0, self._depth - 1)
                self.exchange_ns += perf_counter_ns() - began_ns

        return timed

    def _leaving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def leave(*arguments: Any, **options: Any) -> Any:
            self._watched.leaves_group()
            return original(*arguments, **options)

        return leave


def _is_sharded(module: nn.Module) -> bool:
    """Whether it is one of torch's FSDP, of either version: told by name, which imports nothing."""
    names = {each.__name__ for each in type(module).__mro__}
    return not names.isdisjoint({"FullyShardedDataParallel", "FSDPModule"})


def _at_the_end(tensors: Any, call: Callable[[], None]) -> Iterator[Any]:
    """Have something called when the last gradient is computed, before DDP waits for others.

    The engine calls such functions in the order in which they were given to it, and DDP gives its
    own with its last bucket.
    """
    first: Any = tensors if isinstance(tensors, Tensor) else next(iter(tensors), None)
    if isinstance(first, Tensor) and first.requires_grad:

        def queue(gradient: Tensor) -> None:
            del gradient
            torch.autograd.Variable._execution_engine.queue_callback(call)  # noqa: SLF001

        register: Callable[[Any], Any] = first.register_hook
        yield register(queue)
