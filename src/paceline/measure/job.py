"""Any command, watched from outside while it runs: what its whole process tree uses."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from paceline.measure.processes import Sampler, Usage

Row = dict[str, Any]

COLUMNS: Final = (
    "time_s",
    "cpu_percent",
    "memory_bytes",
    "disk_read_bytes",
    "disk_written_bytes",
    "machine_sent_bytes",
    "machine_received_bytes",
    "machine_packets_sent",
    "machine_packets_received",
    "processes",
)
# Fields of /proc/net/dev: received bytes and packets, sent bytes and packets.
_FIELDS: Final = (8, 0, 9, 1)


def watch_job(command: Sequence[str], interval_s: float, show: Callable[[Row], None]) -> int:
    """Run a command to its end and show a row each interval; returns how it ended, as a shell does.

    Raises `OSError` where it cannot be started. A signal that asks us to end is passed on to it.
    """
    with _Signals() as signals, subprocess.Popen(command) as process:
        signals.pass_on_to(process)
        sampler, began_s = Sampler([process.pid]), time.monotonic()
        before = _Before(began_s, sampler.sample(), _machine_counters())
        base = before.carried
        while True:
            is_over = _ends_within(process, before.time_s + interval_s - time.monotonic())
            now = _Before(time.monotonic(), sampler.sample(), _machine_counters())
            if now.time_s > before.time_s:
                show(_row(before, now, base, began_s))
            before = now
            if is_over:
                break
    code = process.returncode
    return 128 - code if code < 0 else code


class _Before:
    """What was read at one moment."""

    def __init__(self, time_s: float, usage: Usage, carried: tuple[int, ...]) -> None:
        self.time_s = time_s
        self.usage = usage
        self.carried = carried


def _row(before: _Before, now: _Before, base: tuple[int, ...], began_s: float) -> Row:
    usage = now.usage
    cpu_s = usage.cpu_s - before.usage.cpu_s
    carried = [its - first for its, first in zip(now.carried, base, strict=True)]
    values = (
        round(now.time_s - began_s, 3),
        round(100 * cpu_s / (now.time_s - before.time_s), 1),
        usage.memory_bytes,
        usage.disk_read_bytes,
        usage.disk_written_bytes,
        *carried,
        usage.num_processes,
    )
    return dict(zip(COLUMNS, values, strict=True))


def _ends_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(max(0.0, timeout_s))
    except subprocess.TimeoutExpired:
        return False
    return True


class _Signals:
    """Passes on what asks us to end. Ctrl-C reaches the command by itself: we only wait for it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._earlier: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._earlier[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
        for each in (signal.SIGTERM, signal.SIGHUP):
            self._earlier[each] = signal.signal(each, lambda number, _: self._take(number))
        return self

    def pass_on_to(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _take(self, number: int) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def __exit__(self, *_: object) -> None:
        for each, handler in self._earlier.items():
            signal.signal(each, handler)


def _machine_counters() -> tuple[int, ...]:
    """What all interfaces but the loopback device have carried: of the whole machine."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    rows = [line.partition(":") for line in lines]
    counted = [values.split() for name, _, values in rows if name.strip() != "lo"]
    return tuple(sum(int(values[index]) for values in counted) for index in _FIELDS)
