"""What a script's loop takes, written down as every worker's is."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, final

from paceline.compute.base import Compute
from paceline.engine.row_writer import RowWriter
from paceline.measure.recorder import UNKNOWN
from paceline.measure.spans import Span
from paceline.spec import RunSpec


@final
class OwnCompute(Compute):
    """A script computes by itself: there is nothing to ask for."""

    def gradients(self, batch: Any) -> float:
        del batch
        raise AssertionError("a script computes its gradients by itself")

    def accumulate(self, batch: Any) -> float:
        del batch
        raise AssertionError("a script computes its gradients by itself")


@final
class ScriptRecords:
    """A script's time in parts: load and exchange are measured, all the rest is computing."""

    def __init__(self, spec: RunSpec, rows: RowWriter) -> None:
        self.exchanging = Span()
        self.load_ns = 0
        self.trained_s = 0.0
        """Of the training clock, after the last step."""
        self._rows = rows
        self._recorder = rows.recorder
        self._interval_ns = int(spec.record.interval_s * 1e9)
        self._last_ns = 0
        self._next_row_ns = 0
        self._loss = UNKNOWN

    @property
    def stop_wanted(self) -> bool:
        return self._rows.line.stop_wanted

    def now_s(self) -> float:
        return self._rows.clock.now_s()

    def begin(self) -> None:
        self._last_ns = perf_counter_ns()

    def leave_out(self, passed_ns: int) -> None:
        """Take an evaluation out of the step that is under way."""
        self._last_ns += passed_ns

    def note_loss(self, value: float) -> None:
        self._loss = value

    def stepped(self, num_samples: int) -> bool:
        """Count a step; returns whether a row was written with it."""
        now_ns, recorder = perf_counter_ns(), self._recorder
        exchange_ns, self.exchanging.total_ns = self.exchanging.total_ns, 0
        load_ns, self.load_ns = self.load_ns, 0
        recorder.loading.total_ns += load_ns
        recorder.exchanging.total_ns += exchange_ns
        recorder.computing.total_ns += now_ns - self._last_ns - load_ns - exchange_ns
        self._last_ns = now_ns
        recorder.losses.append(self._loss)
        self._loss = UNKNOWN
        if now_ns < self._next_row_ns:
            return False
        self._next_row_ns = now_ns + self._interval_ns
        self._write(num_samples)
        return True

    def flush(self, num_samples: int) -> None:
        """Write what is not written yet: something else than training may follow."""
        if self._recorder.losses:
            self._write(num_samples)

    def _write(self, num_samples: int) -> None:
        since_s = (perf_counter_ns() - self._last_ns) / 1e9
        self.trained_s = self._rows.clock.now_s() - since_s
        self._rows.write(num_samples)
