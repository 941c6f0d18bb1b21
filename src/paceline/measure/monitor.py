"""One monitor per node: what the node's seats use, sampled from outside them.

Twice a second, and whenever training begins or rests: a short run has two samples too, and no
sample covers two phases.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, final

from paceline.comm.meter import Carried, Meter
from paceline.comm.monitor_words import Enter, Noted, Observe, Sampled
from paceline.comm.seat_line import SeatLine
from paceline.comm.words import Joined
from paceline.measure.clock import Clock
from paceline.measure.processes import Sampler, TreeUsage, Usage
from paceline.outcome.rows import NodeSample, SeatSample
from paceline.sinks.base import Sink

# The kernel counts processor time in ticks of 10 ms: over a shorter time a rate says nothing.
_LEAST_S: Final = 0.05


def watch_node(
    line: SeatLine,
    sink: Sink,
    interval_s: float,
    meter: Meter | None = None,
    dilation: float = 1.0,
) -> None:
    """Be a node's monitor until the run is over: wait to be told the seats, then sample.

    `interval_s` is in virtual seconds, as is all that is written but the processor's share: that is
    of the machine that is really there.
    """
    line.send(Joined())
    seats: dict[str, int] = line.wait(Observe).seats
    sink.append("rows", b"")
    monitor = _Monitor(
        seats, None if meter is None else _Odometer(meter), Clock(dilation, line.clock)
    )
    line.send(Noted("starting"))
    due_s = time.monotonic()
    while not line.finished:
        due_s += interval_s * dilation
        while (left_s := due_s - time.monotonic()) > 0 and not line.finished:
            word = line.listen(left_s)
            if isinstance(word, Enter):
                _keep(monitor.enter(word), sink, line)
                line.send(Noted(word.phase))
        if monitor.is_due:
            _keep(monitor.row(), sink, line)


def _keep(sample: NodeSample, sink: Sink, line: SeatLine) -> None:
    sink.append("rows", json.dumps(asdict(sample), separators=(",", ":")).encode() + b"\n")
    if None not in (sample.cpu_percent, sample.memory_bytes):  # to be shown while it goes on
        line.offer(Sampled(sample))


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

    def enter(self, word: Enter) -> NodeSample:
        """Follow the driver's word on what the workers are doing; a row of the phase that ends."""
        trains = word.phase == "training"
        if self._odometer is not None:
            self._odometer.enter(trains=trains)
        if not trains:
            self._clock.pause(word.moment_s)
        row = self.row()
        if word.start_s is not None:
            self._clock.start(word.start_s)
        if trains:
            self._clock.resume(word.moment_s)
        self._phase = word.phase
        return row

    @property
    def is_due(self) -> bool:
        """Whether the last sample was not taken just a moment ago."""
        return time.monotonic() - self._last_s >= _LEAST_S

    def row(self) -> NodeSample:
        """Sample once: what was used since the last sample, and what is held now."""
        now_s = time.monotonic()
        usage = self._sampler.sample()
        elapsed_s, before = now_s - self._last_s, self._last
        self._last_s, self._last = now_s, usage
        return NodeSample(
            time_s=round(self._clock.now_s(), 6),
            phase=self._phase,
            cpu_percent=_cpu_percent(before, usage, elapsed_s),
            # Of seats that have left nothing can be told any more, least of all that it was 0.
            memory_bytes=usage.memory_bytes if usage.are_all_here else None,
            disk_read_bytes=usage.disk_read_bytes,
            disk_written_bytes=usage.disk_written_bytes,
            **self._carried(),
            seats=self._by_seat(before, usage, elapsed_s),
        )

    def _carried(self) -> dict[str, int | None]:
        carried = None if self._odometer is None else self._odometer.read()
        return {
            "net_sent_bytes": None if carried is None else carried.sent_bytes,
            "net_received_bytes": None if carried is None else carried.received_bytes,
            "packets_sent": None if carried is None else carried.packets_sent,
            "packets_received": None if carried is None else carried.packets_received,
        }

    def _by_seat(self, before: Usage, usage: Usage, elapsed_s: float) -> tuple[SeatSample, ...]:
        """What each seat used by itself; seats that share a process have none of their own."""
        if len(set(self._seats.values())) < len(self._seats):
            return ()
        return tuple(
            SeatSample(
                seat=name,
                cpu_percent=_cpu_percent(before.by_root[pid], mine, elapsed_s),
                disk_read_bytes=mine.disk_read_bytes,
                disk_written_bytes=mine.disk_written_bytes,
            )
            for name, pid in self._seats.items()
            if (mine := usage.by_root.get(pid)) is not None
        )


def _cpu_percent(
    before: Usage | TreeUsage, now: Usage | TreeUsage, elapsed_s: float
) -> float | None:
    return 100 * (now.cpu_s - before.cpu_s) / elapsed_s if elapsed_s >= _LEAST_S else None
