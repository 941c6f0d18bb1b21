"""A script's own loop as the steps of a worker: found by its loaders, `backward` and `step`.

Nothing here may cost more than a few microseconds per step.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline.engine.limits import NEVER
from paceline.engine.scripted.exchanges import Exchange
from paceline.engine.scripted.loaders import rows_in
from paceline.engine.scripted.objects import Objects, Unchanged
from paceline.engine.scripted.recording import ScriptRecords
from paceline.engine.scripted.sharing import EvaluatedPart
from paceline.errors import LoopError, ScriptFailed
from paceline.scripting.current import ScriptOver
from paceline.spec import RunSpec

_NOT_ITS_LOADER: Final = (
    "it trained on no batch of the loaders that paceline.wrap gave back: unless they are only for "
    "evaluating, use these and not those it was given, or all workers train on the same rows"
)
_NOT_SHARED: Final = (
    "the last backward() before {}.step() was inside of paceline.no_sync(), so what it computed is "
    "averaged with no other worker's, and models would become different: leave the last backward() "
    "before a step out of it"
)
_SCALED: Final = (
    "a fused {} would unscale gradients while it steps, and servers step here: call "
    "scaler.unscale_(optimizer) before scaler.step(optimizer), or leave out fused=True"
)
_LOADED: Final = (
    "{}.load_state_dict() after paceline.wrap: servers keep what it remembers, and would not have "
    "that; load it before paceline.wrap"
)


@final
class ScriptSession:
    """The steps of one worker's script. Used by the script's main thread."""

    def __init__(
        self,
        spec: RunSpec,
        objects: Objects,
        exchange: Exchange,
        records: ScriptRecords,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.num_steps = 0
        self.num_samples = 0
        self.is_evaluating = False
        self.share: EvaluatedPart | None = None
        self.was_cut = False
        """Whether a loader ended since the run did: what the script makes of that may be odd."""
        self.last = not exchange.member.starts
        self.say = say
        self._exchange = exchange
        self._records = records
        self._way = spec.strategy.scripts
        self._in_step = spec.strategy.in_step
        # Servers take several pushes per step then: the run ends between two steps, not at a push.
        self._ends_between = self._way == "served" and len(objects.optimizers) > 1
        self._closing = len(objects.optimizers) - 1
        self._newest: int | None = None
        self._is_agreed = self._is_hidden = False
        self._deals = bool(objects.loaders) and spec.num_workers > 1
        self._numbers = {id(each): number for number, each in enumerate(objects.optimizers)}
        self._unstepped: set[int] = set()
        self._most_steps = spec.worker_steps or NEVER
        if spec.steps is not None and spec.strategy.in_step:
            self._most_steps = spec.steps
        # Of steps that workers make each for itself, servers count the pushes, and end the run.
        counts = self._ends_between and not self._in_step
        self._most_global = spec.steps if counts else None
        self._most_samples = (spec.samples or math.inf) / spec.num_workers
        self._seconds = spec.seconds or math.inf
        self._pending_samples = 0
        self._syncs = True
        # Of one of several optimizers it is not known which gradients a backward pass was for.
        is_known = spec.num_workers > 1 and len(objects.optimizers) == 1
        self._is_apart: bool | None = False if is_known else None
        self._unchanged = Unchanged(objects, is_exchanged=self._way != "alone")
        self._kept: list[tuple[Any, Tensor | None]] = []
        self._undo: list[Callable[[], None]] = []
        self._objects = objects

    def begin(self) -> None:
        """Watch the script's objects from now on."""
        for each in self._objects.optimizers:
            before = each.register_step_pre_hook(self._before_step)
            after = each.register_step_post_hook(self._after_step)
            self._undo += [before.remove, after.remove]
            if self._way == "served":
                self._undo.append(each.register_load_state_dict_pre_hook(_refuse_state).remove)
        self._watch_backward()
        self._records.begin()

    def _watch_backward(self) -> None:
        """See every `backward` return; gradients that are averaged are so by then."""
        original, averages = torch.autograd.backward, self._way == "averaged"
        depth, numbers = 0, frozenset(self._numbers.values())

        def backward(*arguments: Any, **options: Any) -> None:
            nonlocal depth
            depth += 1
            try:
                original(*arguments, **options)
            finally:
                depth -= 1
            if not depth:  # not where one is inside of another, as checkpointing has it
                self._unstepped.update(numbers)
                if averages and self._syncs:
                    self._average()
                elif averages and not self.is_evaluating and self._is_apart is not None:
                    self._is_apart = True

        torch.autograd.backward = backward
        self._undo.append(lambda: setattr(torch.autograd, "backward", original))

    def _average(self) -> None:
        with self._records.exchanging:
            must_stop = self._exchange.after_backward(last=self._wants_last())
        if self._is_apart:
            self._is_apart = False
        self._exchange.member.global_steps = self.num_steps  # it counts exchanges
        # More passes of the same step may follow, on batches of their own.
        self._is_agreed = self._is_agreed or must_stop
        self.last = self.last or self._exchange.is_deserted

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    @property
    def is_over(self) -> bool:
        if self._ends_between and not self.last:
            alone = not self._in_step and self._is_time_up
            self.last = alone or self._has_enough(self.num_steps, self.num_samples)
        return self.last

    def load(self, batches: Iterator[Any]) -> Any:
        began_ns = perf_counter_ns()
        batch = next(batches)
        self._records.load_ns += perf_counter_ns() - began_ns
        self._pending_samples += rows_in(batch)
        if self._newest is not None:  # whichever stepped last before this batch ends a step
            self._closing = self._newest
        return batch

    def _before_step(self, optimizer: Optimizer, arguments: Any, options: Any) -> Any:
        if self.is_evaluating:
            raise LoopError(
                f"{type(optimizer).__name__}.step() inside of paceline.evaluating(): nothing is "
                "exchanged there, so nothing can be trained"
            )
        if self._exchange.is_deserted or (self.last and self._way == "served"):
            self._hide(optimizer)  # nothing is learnt any more
            self._is_hidden = True
            return None
        number = self._numbers[id(optimizer)]
        if self._way != "served":
            if not (arguments[1:] or options):  # a closure computes its gradients later
                self._check_gradients(optimizer, number)
            return None
        replaced = self._with_closure(arguments, options)
        self._check_gradients(optimizer, number)
        with self._records.exchanging:
            must_stop = self._exchange.before_step(number, last=self._says_last(number))
        self.last = self.last or must_stop
        self._hide(optimizer)
        return replaced

    def _check_gradients(self, optimizer: Optimizer, number: int) -> None:
        """Raises `LoopError` where there are none to step with, or not those to step with."""
        kind = type(optimizer).__name__
        has_any = self._way != "served" or any(e.grad is not None for e in _parameters(optimizer))
        if number not in self._unstepped or not has_any:
            raise LoopError(
                f"{kind}.step() without a backward() since its last step: there is no gradient to "
                "step with"
            )
        if self._is_apart:
            raise LoopError(_NOT_SHARED.format(kind))
        if self._way == "served" and getattr(optimizer, "grad_scale", None) is not None:
            raise LoopError(_SCALED.format(kind))

    def _with_closure(self, arguments: Any, options: Any) -> Any:
        """Have a closure compute before gradients are pushed; torch would call it after."""
        closure = options.get("closure", arguments[1] if len(arguments) > 1 else None)
        if closure is None:
            return None
        with torch.enable_grad():
            loss = closure()
        return arguments[:1], {**options, "closure": lambda: loss}

    def _hide(self, optimizer: Optimizer) -> None:
        """Keep gradients from an optimizer that is not to step here: it skips what has none."""
        for each in _parameters(optimizer):
            self._kept.append((each, each.grad))
            each.grad = None

    def _after_step(self, optimizer: Optimizer, arguments: Any, options: Any) -> None:
        del arguments, options
        for parameter, gradient in self._kept:
            parameter.grad = gradient
        self._kept.clear()
        self._newest = number = self._numbers[id(optimizer)]
        self._unstepped.discard(number)
        if not number and not self._exchange.is_deserted and not self._is_hidden:
            self._count()
        if not self._objects.loaders and number == self._closing and self.is_over:
            raise ScriptOver

    def _count(self) -> None:
        """The first optimizer has stepped: that is a step."""
        self.num_steps += 1
        self.num_samples += self._pending_samples
        self._pending_samples = 0
        member = self._exchange.member
        if self._way == "alone":
            self.last = self._exchange.after_step(last=self._wants_last(done=True)) or self.last
        elif self._way == "averaged":
            member.global_steps = self.num_steps
            self.last = self.last or self._is_agreed
        if self._records.stepped(self.num_samples):
            self._unchanged.check()

    def _wants_last(self, *, done: bool = False) -> bool:
        """Whether this worker wishes the step under way, or the one just done, to be its last."""
        samples = self.num_samples + self._pending_samples
        return self._has_enough(self.num_steps + (not done), samples) or self._is_time_up

    def _says_last(self, number: int) -> bool:
        """Whether a push is to end the run for all: never between two pushes of one step."""
        if not self._ends_between:
            return self._wants_last()
        return self._in_step and number == self._closing and self._is_time_up

    def _has_enough(self, steps: int, samples: int) -> bool:
        most = self._most_global
        if most is not None and (self._exchange.member.global_steps or 0) >= most:
            return True
        return steps >= self._most_steps or samples >= self._most_samples

    @property
    def _is_time_up(self) -> bool:
        if self._records.stop_wanted:
            return True
        return self._seconds is not math.inf and self._records.now_s() >= self._seconds

    def stop(self) -> None:
        """Have the loaders end."""
        self.last = True

    def cut_short(self) -> None:
        self.was_cut = True

    def pause(self) -> None:
        """Something else than training may follow, as at the end of an epoch."""
        self._records.flush(self.num_samples)

    def log_loss(self, value: float) -> None:
        self._records.note_loss(value)

    def end(self) -> None:
        """The script has ended: say so to the others, and look whether it did anything."""
        self.let_go()
        if not self.num_steps:
            raise ScriptFailed(
                "the script ended without a step: optimizer.step() of the optimizer given to "
                "paceline.wrap was never called"
            )
        self._unchanged.check()
        self.pause()
        self._exchange.close()
        if self._way == "averaged":
            self._exchange.member.global_steps = self.num_steps

    def let_go(self) -> None:
        """Leave the script's objects, and torch, as they were."""
        while self._undo:
            self._undo.pop()()

    @property
    def note(self) -> str | None:
        """What the user should know of how it ended."""
        if not self._exchange.is_deserted:
            return None if self.num_samples or not self._deals else _NOT_ITS_LOADER
        return (
            f"it ended after {self.num_steps} steps, since {self._exchange.deserted_by} made no "
            "more: their scripts had different numbers of batches, or one left its loop"
        )

    @property
    def counted(self) -> Mapping[str, Any]:
        return {"worker_steps": self.num_steps, "samples": self.num_samples}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Give the size of all parameters, which is also what travels."""
        total = sum(each.nbytes for each in self._objects.parameters)
        return dict.fromkeys(("model_bytes", "parameter_bytes"), total)


def _refuse_state(optimizer: Optimizer, state: Any) -> None:
    del state
    raise LoopError(_LOADED.format(type(optimizer).__name__))


def _parameters(optimizer: Optimizer) -> Iterator[Any]:
    return (each for group in optimizer.param_groups for each in group["params"])
