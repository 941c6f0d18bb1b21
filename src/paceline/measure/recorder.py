"""A worker's own records: about ten rows per second, however many steps that is."""

from __future__ import annotations

import json
import math
from array import array
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final, final

from paceline.measure.spans import Span

# How many losses are kept in memory for the mean of the last tenth: enough for 650,000 steps.
_TAIL_STEPS: Final = 1 << 16
_NOTHING: Final[Mapping[str, int]] = {}
_NO_LOSS: Final[Mapping[str, float | None]] = dict.fromkeys(
    ("loss_mean", "loss_min", "loss_max", "loss_variance")
)


@final
class Recorder:
    """Collects one worker's losses and spans, and appends a row now and then.

    A step costs one append to a list; sums are made when a row is written. Rows are JSON lines
    until the run is sealed, so a process that is killed loses at most its last tenth of a second.
    """

    def __init__(
        self,
        rows: Path | None,
        losses: Path | None,
        *,
        has_loss: bool = True,
        dilation: float = 1.0,
    ) -> None:
        """Without a loss, what is appended to `losses` only counts the steps."""
        self.load = Span()
        self.compute = Span()
        self.exchange = Span()
        self.losses: list[float] = []
        self.num_steps = 0
        self.num_odd = 0
        """How many losses so far were no finite numbers."""
        self._tail: deque[float] = deque(maxlen=_TAIL_STEPS)
        self._rows = rows.open("a", buffering=1) if rows else None
        self._losses = losses.open("ab", buffering=0) if losses and has_loss else None
        self._has_loss = has_loss
        self._dilation = dilation

    def write(
        self,
        time_s: float,
        num_samples: int,
        global_steps: int | None,
        exchanged: Mapping[str, int] = _NOTHING,
    ) -> dict[str, Any]:
        """Append a row about the steps since the last one; returns it."""
        losses, self.losses = self.losses, []
        self.num_steps += len(losses)
        moments = _moments(losses) if self._has_loss else _NO_LOSS
        if not math.isfinite(moments["loss_mean"] or 0.0):
            self.num_odd += sum(not math.isfinite(loss) for loss in losses)
        self._tail.extend(losses)
        row: dict[str, Any] = {
            "time_s": round(time_s, 6),
            "worker_steps": self.num_steps,
            "samples": num_samples,
            "global_steps": global_steps,
            "count": len(losses),
            "load_s": self.load.take_s() / self._dilation,
            "compute_s": self.compute.take_s() / self._dilation,
            "exchange_s": self.exchange.take_s() / self._dilation,
            "sent_bytes": exchanged.get("sent_bytes"),
            "received_bytes": exchanged.get("received_bytes"),
            **moments,
        }
        if self._rows is not None:
            self._rows.write(json.dumps(row, separators=(",", ":")) + "\n")
        if self._losses is not None:
            self._losses.write(array("f", losses).tobytes())
        return row

    def move_to_exchange(self, waited_ns: int) -> None:
        """Count as exchange what was an exchange inside of computing."""
        self.compute.total_ns -= waited_ns
        self.exchange.total_ns += waited_ns

    def final_loss(self) -> float | None:
        """Average the loss over the last tenth of the steps, whenever rows were written.

        Losses that are not finite are left out, as their gradients were. None where all are.
        """
        if not self._has_loss:
            return None
        tail = list(self._tail)[-max(1, self.num_steps // 10) :]
        finite = [loss for loss in tail if math.isfinite(loss)]
        return _mean(finite) if finite else None

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()
        if self._losses is not None:
            self._losses.close()


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
