"""One monitor per node: what the node's seats use, sampled from outside them.

Twice a second, and whenever training begins or rests: a short run has two samples too, and no
sample covers two phases.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO, final

from paceline.comm.line import Message, SeatLine
from paceline.comm.meter import Carried, Meter
from paceline.linux import own_pid
from paceline.measure.clock import Clock
from paceline.measure.processes import Sampler, TreeUsage, Usage

# The kernel counts processor time in ticks of 10 ms: over a shorter time a rate says nothing.
_LEAST_S: Final = 0.05


def watch_node(
    line: SeatLine,
    rows: Path,
    interval_s: float,
    meter: Meter | None = None,
    dilation: float = 1.0,
) -> None:
    """Be a node's monitor until the run is over: wait to be told the seats, then sample.

    `interval_s` is in virtual seconds, as is all that is written but the processor's share: that is
    of the machine that is really there.
    """
    line.send("joined", pid=own_pid())
    seats: dict[str, int] = line.wait("watch")["seats"]
    with rows.open("a", buffering=1) as file:
        monitor = _Monitor(seats, None if meter is None else _Odometer(meter), Clock(dilation))
        line.send("noted", phase="starting")
        due_s = time.monotonic()
        while not line.finished:
            due_s += interval_s * dilation
            while (left_s := due_s - time.monotonic()) > 0 and not line.finished:
                message = line.listen(left_s)
                if message is not None and message["kind"] == "phase":
                    _keep(monitor.enter(message), file, line)
                    line.send("noted", phase=message["phase"])
            if monitor.is_due:
                _keep(monitor.row(), file, line)


def _keep(row: dict[str, Any], file: TextIO, line: SeatLine) -> None:
    file.write(json.dumps(row, separators=(",", ":")) + "\n")
    if None not in (row["cpu_percent"], row["memory_bytes"]):  # something to show while it goes on
        line.offer("usage", **row)


@final
class _Odometer:
    """What a link carried while workers trained, evaluations and all else left out."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._before = meter()
        self._carried = Carried()
        self._runs = False
        self._has_run = False

    def enter(self, *, trains: bool) -> None:
        """A phase begins. The first training began, as far as the link goes, when this was made."""
        now = self._meter()
        if self._runs:
            self._carried += now - self._before
        if self._has_run:
            self._before = now
        self._runs = trains
        self._has_run |= trains

    def read(self) -> Carried:
        return self._carried + (self._meter() - self._before) if self._runs else self._carried


@final
class _Monitor:
    """Turns counters into rates, and knows which phase of the run it is looking at."""

    def __init__(self, seats: Mapping[str, int], odometer: _Odometer | None, clock: Clock) -> None:
        self._seats = seats
        self._sampler = Sampler(seats.values())
        self._odometer = odometer
        self._clock = clock
        self._phase = "starting"
        self._last: Usage = self._sampler.sample()
        self._last_s = time.monotonic()

    def enter(self, message: Message) -> dict[str, Any]:
        """Follow the driver's word on what the workers are doing; a row of the phase that ends."""
        trains = message["phase"] == "training"
        if self._odometer is not None:
            self._odometer.enter(trains=trains)
        if not trains:
            self._clock.pause(message["moment_s"])
        row = self.row()
        if "start_s" in message:
            self._clock.start(message["start_s"])
        if trains:
            self._clock.resume(message["moment_s"])
        self._phase = message["phase"]
        return row

    @property
    def is_due(self) -> bool:
        """Whether the last sample was not taken just a moment ago."""
        return time.monotonic() - self._last_s >= _LEAST_S

    def row(self) -> dict[str, Any]:
        """Sample once: what was used since the last sample, and what is held now."""
        now_s = time.monotonic()
        usage = self._sampler.sample()
        elapsed_s, before = now_s - self._last_s, self._last
        self._last_s, self._last = now_s, usage
        return {
            "time_s": round(self._clock.now_s(), 6),
            "phase": self._phase,
            "cpu_percent": _cpu_percent(before, usage, elapsed_s),
            # Of seats that have left nothing can be told any more, least of all that it was 0.
            "memory_bytes": usage.memory_bytes if usage.are_all_here else None,
            "disk_read_bytes": usage.disk_read_bytes,
            "disk_written_bytes": usage.disk_written_bytes,
            **self._carried(),
            "seats": self._by_seat(before, usage, elapsed_s),
        }

    def _carried(self) -> dict[str, int | None]:
        carried = None if self._odometer is None else self._odometer.read()
        return {
            "net_sent_bytes": None if carried is None else carried.sent_bytes,
            "net_received_bytes": None if carried is None else carried.received_bytes,
            "packets_sent": None if carried is None else carried.packets_sent,
            "packets_received": None if carried is None else carried.packets_received,
        }

    def _by_seat(self, before: Usage, usage: Usage, elapsed_s: float) -> list[dict[str, Any]]:
        """What each seat used by itself; seats that share a process have none of their own."""
        if len(set(self._seats.values())) < len(self._seats):
            return []
        return [
            {
                "seat": name,
                "cpu_percent": _cpu_percent(before.by_root[pid], mine, elapsed_s),
                "disk_read_bytes": mine.disk_read_bytes,
                "disk_written_bytes": mine.disk_written_bytes,
            }
            for name, pid in self._seats.items()
            if (mine := usage.by_root.get(pid)) is not None
        ]


def _cpu_percent(
    before: Usage | TreeUsage, now: Usage | TreeUsage, elapsed_s: float
) -> float | None:
    return 100 * (now.cpu_s - before.cpu_s) / elapsed_s if elapsed_s >= _LEAST_S else None
