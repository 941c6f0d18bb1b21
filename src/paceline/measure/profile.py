"""A few steps of one seat under torch's profiler: a table of operators, and a trace.

Only `over` is called while training goes on; tables and files are made when it is over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.sinks.base import Sink

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEventAvg

T = TypeVar("T")
Shapes = tuple[tuple[int, ...], ...]

# The first steps are not like the others: memory is touched for the first time.
_SKIPPED: Final = 3
# Of all that a profiler notes; `numpy::` is what a workload marks of its own.
_OPERATORS: Final = ("aten::", "numpy::")


@final
@dataclass(frozen=True)
class Output:
    """What an operator gives."""

    shape: tuple[int, ...]
    num_bytes: int


@final
class Profile:
    """Watches what happens between two items of an iterator: batches, or what arrives."""

    def __init__(self, sink: Sink, *, count: int = 5) -> None:
        self._sink = sink
        self._count = count
        # The first profile of a process takes seconds to begin, the first mark in one some
        # milliseconds: not while others train.
        with profile(activities=[ProfilerActivity.CPU]), record_function("first"):
            pass
        self._profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
        self._sizes = _Sizes()
        self._num_seen = 0
        self._runs = False
        self._spent_ns = 0

    def over(self, items: Iterator[T]) -> Iterator[T]:
        """Pass items on, and profile what is done with a few of them.

        One more is done with the sizes of all outputs noted, which takes time of its own.
        """
        for number, item in enumerate(items):
            if _SKIPPED <= number <= _SKIPPED + self._count + 1:
                began_ns = perf_counter_ns()
                self._turn(number - _SKIPPED)
                self._spent_ns += perf_counter_ns() - began_ns
            yield item

    def _turn(self, number: int) -> None:
        """Before the first item of a profile, between two, after the last, and one later."""
        if number == 0:
            self._profiler.start()
            self._runs = True
        elif number == self._count:
            self._stop()
            self._sizes.__enter__()
        elif number > self._count:
            self._sizes.leave()
        self._num_seen += self._runs

    def take_spent_ns(self) -> int:
        """Give how long starting and stopping took, since this was last asked."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns

    def _stop(self) -> None:
        if self._runs:
            self._runs = False
            self._profiler.stop()

    def write(self, since_start_s: float, dilation: float) -> None:
        """Write what was seen, if anything was; training began that long ago."""
        zero_unix_s = time.time() - since_start_s
        self._stop()
        self._sizes.leave()
        if not self._num_seen:
            return

        def write_trace(path: Path) -> None:
            self._profiler.export_chrome_trace(str(path))
            trace = _on_clock(json.loads(path.read_text()), zero_unix_s, dilation)
            path.write_text(json.dumps(trace))

        self._sink.put("trace", write_trace)
        rows = list(self._operators())
        self._sink.put("operators", lambda path: path.write_text(json.dumps(rows, indent=1)))

    def _operators(self) -> Iterator[dict[str, Any]]:
        """One row for each operator and the shapes it met, what took longest first."""
        averages = self._profiler.key_averages(group_by_input_shape=True)
        inorder = sorted(averages, key=lambda each: each.self_cpu_time_total, reverse=True)
        for each in inorder:
            if str(each.key).startswith(_OPERATORS) and each.self_cpu_time_total > 0:
                yield self._row(each)

    def _row(self, event: FunctionEventAvg) -> dict[str, Any]:
        shapes = _trimmed(event.input_shapes)
        output = self._sizes.of(str(event.key), shapes)
        return {
            "operator": event.key,
            "input_shapes": shapes,
            "output_shape": None if output is None else output.shape,
            "output_bytes": None if output is None else output.num_bytes,
            "calls_per_step": event.count / self._num_seen,
            "ms_per_step": event.self_cpu_time_total / 1e3 / self._num_seen,
        }


@final
class _Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what each operator gives, by its name and the shapes of what it is given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._outputs: dict[tuple[str, Shapes], Output] = {}
        self._by_shapes: dict[Shapes, Output] = {}
        self._is_on = False

    def __enter__(self) -> Self:
        self._is_on = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def of(self, name: str, shapes: Shapes) -> Output | None:
        """Give an operator's output; of one that another calls, that of its caller."""
        return self._outputs.get((name, shapes)) or self._by_shapes.get(shapes)

    def leave(self) -> None:
        """Stop noting; does nothing if it is not."""
        if self._is_on:
            self._is_on = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        several = result if isinstance(result, (tuple, list)) else (result,)
        first = next((each for each in several if isinstance(each, Tensor)), None)
        if first is not None:
            shapes = _trimmed([each.shape if isinstance(each, Tensor) else () for each in args])
            output = Output(tuple(first.shape), first.nbytes)
            self._outputs[func.name().partition(".")[0], shapes] = output
            self._by_shapes.setdefault(shapes, output)
        return result


def _trimmed(shapes: Any) -> Shapes:
    """Leave out what is no tensor at the end: defaults are told by one side only."""
    found = [tuple(each) for each in shapes]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _on_clock(trace: dict[str, Any], zero_unix_s: float, dilation: float) -> dict[str, Any]:
    """Count microseconds from the start of training, as every other record of the run does."""
    shift = trace.pop("baseTimeNanoseconds", 0) / 1e3 - zero_unix_s * 1e6
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] = (event["ts"] + shift) / dilation
        if "dur" in event:
            event["dur"] /= dilation
    return trace
