"""One monitor a node: what the node's seats use, sampled twice a second from outside them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from paceline.comm.line import Message, SeatLine
from paceline.comm.meter import Carried, Meter
from paceline.linux import own_pid
from paceline.measure.clock import Clock
from paceline.measure.processes import Sampler, Usage

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
                    monitor.enter(message)
                    line.send("noted", phase=message["phase"])
            row = monitor.row(at_least=line.finished)
            if row is not None:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
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
        self._phase_changed = False
        self._last: Usage = self._sampler.sample()
        self._last_s = time.monotonic()

    def enter(self, message: Message) -> None:
        """Follow the driver's word on what the workers are doing."""
        if "start_s" in message:
            self._clock.start(message["start_s"])
        if message["phase"] == "training":
            self._clock.resume(message["moment_s"])
        else:
            self._clock.pause(message["moment_s"])
        if self._odometer is not None:
            self._odometer.enter(trains=message["phase"] == "training")
        self._phase = message["phase"]
        self._phase_changed = True

    def row(self, *, at_least: bool = False) -> dict[str, Any] | None:
        """Sample once, unless that was done a moment ago. One over two phases is marked as mixed.

        `at_least` waits for that moment to be over: there will be no other row.
        """
        elapsed_s = time.monotonic() - self._last_s
        if elapsed_s < _LEAST_S:
            if not at_least:
                return None
            time.sleep(_LEAST_S - elapsed_s)
        now_s = time.monotonic()
        usage = self._sampler.sample()
        elapsed_s, before = now_s - self._last_s, self._last
        self._last_s, self._last = now_s, usage
        mixed, self._phase_changed = self._phase_changed, False
        return {
            "time_s": round(self._clock.now_s(), 6),
            "phase": "mixed" if mixed else self._phase,
            "cpu_percent": 100 * (usage.cpu_s - before.cpu_s) / elapsed_s,
            "memory_bytes": usage.memory_bytes,
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
                "cpu_percent": 100 * (mine.cpu_s - before.by_root[pid].cpu_s) / elapsed_s,
                "disk_read_bytes": mine.disk_read_bytes,
                "disk_written_bytes": mine.disk_written_bytes,
            }
            for name, pid in self._seats.items()
            if (mine := usage.by_root.get(pid)) is not None
        ]
