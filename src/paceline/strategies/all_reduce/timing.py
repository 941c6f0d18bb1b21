"""When gradients left and arrived, and how much of that computing hid."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final, final

from paceline.errors import StateError
from paceline.training.state import State, Stateful, StateReader, attributes, by_number

_COUNTED: Final = ("_num_steps", "hidden_ns", "apply_ns")
_SUMMED: Final = ("num_bytes", "start_ns", "run_ns", "wait_ns")


@final
@dataclass
class _Sums:
    num_bytes: int = 0
    start_ns: int = 0
    run_ns: int = 0
    wait_ns: int = 0


@final
class Timing(Stateful):
    """Sums over all steps, bucket by bucket.

    A step begins, the worker computes, then it arrives: from there on it only waits.
    """

    def __init__(self) -> None:
        self._sums: dict[int, _Sums] = {}
        self._num_steps = 0
        self._began_ns = 0
        self._arrived_ns = 0
        self.hidden_ns = 0
        self.apply_ns = 0

    def begin(self) -> None:
        """A step begins."""
        self._began_ns = perf_counter_ns()

    def arrive(self) -> None:
        """The worker has nothing more to compute."""
        self._arrived_ns = perf_counter_ns()
        self._num_steps += 1

    def note(self, bucket: int, num_bytes: int, began_ns: int, ended_ns: int) -> None:
        """A bucket was exchanged; to be called after `arrive`."""
        sums, arrived_ns = self._sums.get(bucket), self._arrived_ns
        if sums is None:
            sums = self._sums[bucket] = _Sums()
        sums.num_bytes = num_bytes
        sums.start_ns += began_ns - self._began_ns
        sums.run_ns += ended_ns - began_ns
        sums.wait_ns += max(0, ended_ns - max(began_ns, arrived_ns))
        self.hidden_ns += max(0, min(ended_ns, arrived_ns) - began_ns)

    def applied(self, began_ns: int) -> None:
        """The update that began then is applied."""
        self.apply_ns += perf_counter_ns() - began_ns

    def since_arrival_s(self) -> float:
        """For how long the worker has been waiting."""
        return (perf_counter_ns() - self._arrived_ns) / 1e9

    def state(self) -> State:
        by_bucket = {
            name: by_number({index: getattr(each, name) for index, each in self._sums.items()})
            for name in _SUMMED
        }
        return {**attributes(self, *_COUNTED), **by_bucket}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_COUNTED)
            columns = [fields.counts_by_number(name) for name in _SUMMED]
        if any(each.keys() != columns[0].keys() for each in columns):
            raise StateError("buckets", str([*map(len, columns)]), "not the same ones of each sum")
        self._sums = {index: _Sums(*(each[index] for each in columns)) for index in columns[0]}

    def table(self) -> dict[str, Any]:
        """Give all as plain values."""
        buckets = [
            {
                "num_bytes": each.num_bytes,
                "start_s": each.start_ns / max(1, self._num_steps) / 1e9,
                "run_s": each.run_ns / 1e9,
                "wait_s": each.wait_ns / 1e9,
            }
            for _, each in sorted(self._sums.items())
        ]
        return {
            "apply_s": self.apply_ns / 1e9,
            "hidden_s": self.hidden_ns / 1e9,
            "buckets": buckets,
        }
