"""One monitor a node: what the node's seats use, sampled twice a second from outside them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final, final

from paceline.comm.line import Message, SeatLine
from paceline.linux import own_pid
from paceline.measure.clock import Clock
from paceline.measure.processes import Sampler, Usage

# The kernel counts processor time in ticks of 10 ms: over a shorter time a rate says nothing.
_LEAST_S: Final = 0.05


def watch_node(line: SeatLine, rows: Path, interval_s: float, dilation: float = 1.0) -> None:
    """Be a node's monitor until the run is over: wait to be told the pids, then sample.

    `interval_s` is in virtual seconds, as is all that is written but the processor's share: that is
    of the machine that is really there.
    """
    line.send("joined", pid=own_pid())
    pids: list[int] = line.wait("watch")["pids"]
    with rows.open("a", buffering=1) as file:
        monitor = _Monitor(Sampler(pids), Clock(dilation))
        due_s = time.monotonic()
        while not line.finished:
            due_s += interval_s * dilation
            while (left_s := due_s - time.monotonic()) > 0 and not line.finished:
                monitor.hear(line.listen(left_s))
            row = monitor.row()
            if row is not None:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
                line.offer("usage", **row)


@final
class _Monitor:
    """Turns counters into rates, and knows which phase of the run it is looking at."""

    def __init__(self, sampler: Sampler, clock: Clock) -> None:
        self._sampler = sampler
        self._clock = clock
        self._phase = "starting"
        self._phase_changed = False
        self._last: Usage = sampler.sample()
        self._last_s = time.monotonic()

    def hear(self, message: Message | None) -> None:
        """Follow the driver's word on what the workers are doing."""
        if message is None or message["kind"] != "phase":
            return
        if "start_s" in message:
            self._clock.start(message["start_s"])
        if message["phase"] == "training":
            self._clock.resume(message["moment_s"])
        else:
            self._clock.pause(message["moment_s"])
        self._phase = message["phase"]
        self._phase_changed = True

    def row(self) -> dict[str, Any] | None:
        """Sample once. A row that covers two phases is marked as mixed."""
        now_s = time.monotonic()
        elapsed_s = now_s - self._last_s
        if elapsed_s < _LEAST_S:
            return None
        usage = self._sampler.sample()
        cpu_s = usage.cpu_s - self._last.cpu_s
        self._last_s, self._last = now_s, usage
        mixed, self._phase_changed = self._phase_changed, False
        return {
            "time_s": round(self._clock.now_s(), 6),
            "phase": "mixed" if mixed else self._phase,
            "cpu_percent": 100 * cpu_s / elapsed_s,
            "memory_bytes": usage.memory_bytes,
            "disk_read_bytes": usage.disk_read_bytes,
            "disk_written_bytes": usage.disk_written_bytes,
        }
