"""A worker's own records: about ten rows per second, however many steps that is."""

from __future__ import annotations

import json
import math
from array import array
from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Final, final

from paceline.measure.spans import Span
from paceline.sinks.base import Sink
from paceline.training.state import State, Stateful, StateReader, attributes, real_numbers

# How many losses are kept in memory for the mean of the last tenth: enough for 650,000 steps.
_TAIL_STEPS: Final = 1 << 16
UNKNOWN: Final = float("nan")
"""This very object stands for the loss of a step that is not known."""
_NOTHING: Final[Mapping[str, int]] = {}
_COUNTED: Final = ("num_steps", "num_odd", "loading", "computing", "exchanging")
_NO_LOSS: Final[Mapping[str, float | None]] = dict.fromkeys(
    ("loss_mean", "loss_min", "loss_max", "loss_variance")
)


@final
class Recorder(Stateful):
    """Collects one worker's losses and spans, and appends a row now and then.

    A step costs one append to a list; sums are made when a row is written. Rows are JSON lines
    until the run is sealed, so a process that is killed loses at most its last tenth of a second.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        keeps_rows: bool = True,
        keeps_losses: bool = False,
        has_loss: bool = True,
        dilation: float = 1.0,
    ) -> None:
        """Without a loss, what is appended to `losses` only counts the steps."""
        self.loading = Span()
        self.computing = Span()
        self.exchanging = Span()
        self.losses: list[float] = []
        self.num_steps = 0
        self.num_odd = 0
        """How many losses so far were no finite numbers."""
        self._tail: deque[float] = deque(maxlen=_TAIL_STEPS)
        self._sink = sink
        self._keeps_rows = keeps_rows
        self._keeps_losses = keeps_losses and has_loss
        self._has_loss = has_loss
        self._dilation = dilation
        if self._keeps_rows:
            sink.append("rows", b"")
        if self._keeps_losses:
            sink.append("losses", b"")

    def write(
        self,
        time_s: float,
        num_samples: int,
        global_steps: int | None,
        exchanged: Mapping[str, int] = _NOTHING,
    ) -> dict[str, Any]:
        """Append a row about the steps since the last one; returns it."""
        losses, self.losses = self.losses, []
        count = len(losses)
        self.num_steps += count
        if UNKNOWN in losses:  # the same object: no other NaN is equal to it
            losses = [loss for loss in losses if loss is not UNKNOWN]
        moments = _moments(losses) if self._has_loss and losses else _NO_LOSS
        if not math.isfinite(moments["loss_mean"] or 0.0):
            self.num_odd += sum(not math.isfinite(loss) for loss in losses)
        self._tail.extend(losses)
        row: dict[str, Any] = {
            "time_s": round(time_s, 6),
            "worker_steps": self.num_steps,
            "samples": num_samples,
            "global_steps": global_steps,
            "count": count,
            "load_s": self.loading.take_s() / self._dilation,
            "compute_s": self.computing.take_s() / self._dilation,
            "exchange_s": self.exchanging.take_s() / self._dilation,
            "sent_bytes": exchanged.get("sent_bytes"),
            "received_bytes": exchanged.get("received_bytes"),
            **moments,
        }
        if self._keeps_rows:
            self._sink.append("rows", json.dumps(row, separators=(",", ":")).encode() + b"\n")
        if self._keeps_losses:
            self._sink.append("losses", array("f", losses).tobytes())
        return row

    def move_to_exchange(self, waited_ns: int) -> None:
        """Count as exchange what was an exchange inside of computing."""
        self.computing.total_ns -= waited_ns
        self.exchanging.total_ns += waited_ns

    @property
    def has_losses(self) -> bool:
        """Whether any loss was known so far."""
        return bool(self._tail)

    def final_loss(self) -> float | None:
        """Average the loss over the last tenth of the steps, whenever rows were written.

        Losses that are not finite are left out, as their gradients were. None where all are.
        """
        if not self._has_loss:
            return None
        tail = list(self._tail)[-max(1, self.num_steps // 10) :]
        finite = [loss for loss in tail if math.isfinite(loss)]
        return _mean(finite) if finite else None

    def state(self) -> State:
        """Give what later rows and the final loss count on; rows stay with their run."""
        lists = {"tail": real_numbers(self._tail), "losses": real_numbers(self.losses)}
        return {**attributes(self, *_COUNTED), **lists}

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, *_COUNTED)
            self._tail = deque(fields.numbers("tail"), maxlen=_TAIL_STEPS)
            self.losses = fields.numbers("losses")


def _moments(losses: list[float]) -> dict[str, float]:
    mean = _mean(losses)
    # Not ** 2: a loss on its way to infinity overflows, which only a product does silently.
    return {
        "loss_mean": mean,
        "loss_min": min(losses),
        "loss_max": max(losses),
        "loss_variance": _mean([(loss - mean) * (loss - mean) for loss in losses]),
    }


def _mean(values: list[float]) -> float:
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # a sum beyond all numbers, or of both infinities
        return sum(values) / len(values)
