"""Any command, watched from outside while it runs: what its whole process tree uses."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from paceline.measure.processes import Sampler, Usage
from paceline.outcome.rows import CommandSample
from paceline.system.waiting import time_left

# How often we look whether the command is still there.
_LOOK_S: Final = 0.01
# The kernel counts processor time in ticks of 10 ms: over a shorter time a rate says nothing.
_LEAST_S: Final = 0.05
# Fields of /proc/net/dev: received bytes and packets, sent bytes and packets.
_FIELDS: Final = (8, 0, 9, 1)


def watch_job(
    command: Sequence[str], interval_s: float, show: Callable[[CommandSample], None]
) -> int:
    """Run a command to its end and show a row each interval; returns how it ended, as a shell does.

    The last row is of the time since the one before, so a command that is over sooner has one too.
    Raises `NotStarted` where it cannot be started. A signal that asks us to end is passed on to it.
    """
    began_s, base = time.monotonic(), _machine_counters()
    with _Signals() as signals, _started(command) as process:
        signals.pass_on_to(process)
        sampler = Sampler([process.pid])
        # What it used before it was first looked at belongs to the first row.
        before = _Before(began_s, replace(sampler.sample(), cpu_s=0.0), base)
        while True:
            left_s = before.time_s + interval_s - time.monotonic()
            is_over = _ends_within(process.pid, left_s)
            time.sleep(max(0.0, before.time_s + _LEAST_S - time.monotonic()))
            # It is waited for only after this: until then its account can be read.
            now = _Before(time.monotonic(), sampler.sample(), _machine_counters())
            show(_row(before, now, base, began_s))
            before = now
            if is_over:
                break
    code = process.returncode
    return 128 - code if code < 0 else code


class NotStarted(Exception):
    """A command that is not there, or may not be run."""


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command)
    except OSError as error:
        raise NotStarted(error.strerror) from error


class _Before:
    """What was read at one moment."""

    def __init__(self, time_s: float, usage: Usage, carried: tuple[int, ...]) -> None:
        self.time_s = time_s
        self.usage = usage
        self.carried = carried


def _row(before: _Before, now: _Before, base: tuple[int, ...], began_s: float) -> CommandSample:
    usage = now.usage
    cpu_s = usage.cpu_s - before.usage.cpu_s
    carried = [its - first for its, first in zip(now.carried, base, strict=True)]
    sent_bytes, received_bytes, packets_sent, packets_received = carried
    # Whoever has ended holds no memory: the last row tells what was last seen.
    seen = usage if usage.num_processes else before.usage
    return CommandSample(
        time_s=round(now.time_s - began_s, 3),
        cpu_percent=round(100 * cpu_s / (now.time_s - before.time_s), 1),
        memory_bytes=seen.memory_bytes,
        disk_read_bytes=usage.disk_read_bytes,
        disk_written_bytes=usage.disk_written_bytes,
        machine_sent_bytes=sent_bytes,
        machine_received_bytes=received_bytes,
        machine_packets_sent=packets_sent,
        machine_packets_received=packets_received,
        processes=seen.num_processes,
    )


def _ends_within(pid: int, timeout_s: float) -> bool:
    """Wait for a child to end, and leave it there: the kernel then still has its account."""
    for left_s in time_left(timeout_s):
        if _has_ended(pid):
            return True
        time.sleep(min(left_s, _LOOK_S))
    return _has_ended(pid)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # a signal that was passed on found it ended
        return True


class _Signals:
    """Passes on what asks us to end. Ctrl-C reaches the command by itself: we only wait for it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._earlier: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._hear(signal.SIGINT, lambda *_: None)
        for each in (signal.SIGTERM, signal.SIGHUP):
            self._hear(each, lambda number, _: self._take(number))
        return self

    def _hear(self, number: int, handler: Callable[[int, object], None]) -> None:
        """Leave what is ignored, as nohup has it, to be ignored: by the command too."""
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._earlier[number] = signal.signal(number, handler)

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
