"""How much memory a server and a worker take, by what the kernel counts.

    python benchmarks/memory.py [--repetitions 3]

The largest of many samples of each seat until the first one leaves: what two share is the other's
alone from then on. *Private* is what only that process has; *proportional* adds its share of what
it shares, a page that four map counting a quarter in each; *resident* counts every page it maps,
whoever else does, and is the kernel's own peak, which no sample can miss. Judged is what is
private: through shared memory a server also sees the gradients and parameters of its workers,
which they would have without it.

- A server of a 233 MB model, plain SGD, three synchronous workers: times the model, less what the
  same server has with a model of a kilobyte, which is its interpreter.
- A worker of a sparse regression, as the table of weights grows from 1 M to 33.7 M.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from bounded import end_children
from trials import spread, table

from paceline.system import linux

MOST_TIMES = 2.5
LARGE_BYTES = 233_000_000
SMALL_BYTES = 1_000
FEATURES = (1_000_000, 33_762_578)
EVERY_S = 0.02
DEADLINE_S = 300.0
SYNC = "synthetic --strategy ps-sync --workers 3 --batch 1 --lr 1e-6 --worker-steps 12"
SPARSE = "synthetic --strategy ps-async --workers 3 --batch 100 --worker-steps 600"
FIELDS = {
    "private": ("Private_Clean", "Private_Dirty"),
    "proportional": ("Pss",),
    "resident": ("VmHWM",),
}

Peaks = dict[str, dict[str, int]]
"""The most bytes of each seat, by what is counted."""


def peaks_of(options: str, *settings: str) -> Peaks:
    """Run, and watch every seat until it ends."""
    linux.adopt_orphans()
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "paceline", "run", *options.split(), "--out", out]
        command += ["--eval-samples", "1", "--set", "threads=1", "record.model=false", *settings]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            peaks = _watch(run)
        finally:
            end_children()
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
    return peaks


def _watch(run: subprocess.Popen[bytes]) -> Peaks:
    peaks: Peaks = {}
    ends_s = time.monotonic() + DEADLINE_S
    while run.poll() is None and time.monotonic() < ends_s:
        samples = {seat: _sizes(pid) for seat, pid in _seats(run.pid)}
        if peaks.keys() - dict(_seats(run.pid)).keys():  # looked at after the samples
            break
        for seat, sizes in samples.items():
            _raise(peaks.setdefault(seat, dict.fromkeys(FIELDS, 0)), sizes)
        time.sleep(EVERY_S)
    try:
        run.wait(max(1.0, ends_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SystemExit(f"not done after {DEADLINE_S:.0f} s") from None
    return peaks


def _raise(peak: dict[str, int], sizes: Mapping[str, int]) -> None:
    for what, fields in FIELDS.items():
        peak[what] = max(peak[what], sum(sizes.get(field, 0) for field in fields))


def _seats(driver: int) -> Iterator[tuple[str, int]]:
    """A seat is known by the log that it writes to."""
    try:
        children = psutil.Process(driver).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for child in children:
        try:
            log = Path(os.readlink(f"/proc/{child.pid}/fd/1"))  # noqa: PTH115 - gives a str
        except OSError:
            continue
        if log.parent.name == "logs":
            yield log.stem, child.pid


def _sizes(pid: int) -> dict[str, int]:
    """Bytes by name; none of a process that has ended."""
    try:
        text = "".join(
            Path(f"/proc/{pid}/{name}").read_text() for name in ("smaps_rollup", "status")
        )
    except OSError:
        return {}
    lines = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, _ in lines}


@dataclass(frozen=True)
class Server:
    """What a server took with the large model, and with next to none."""

    large: dict[str, int]
    interpreter: dict[str, int]

    def times(self, what: str) -> float:
        return (self.large[what] - self.interpreter[what]) / LARGE_BYTES


def server_peaks(transport: str) -> Server:
    cluster = f"cluster.transport={transport}"
    large, small = (
        peaks_of(SYNC, cluster, f"workload.bytes={size}", "workload.rows=100")["server0"]
        for size in (LARGE_BYTES, SMALL_BYTES)
    )
    return Server(large, small)


def compare_servers(repetitions: int) -> Iterator[tuple[str, ...]]:
    for transport in ("shared", "zmq"):
        servers = [server_peaks(transport) for _ in range(repetitions)]
        times = {what: [each.times(what) for each in servers] for what in FIELDS}
        met = "met" if max(times["private"]) <= MOST_TIMES else "MISSED"
        yield (transport, *(spread(times[what], 2) for what in FIELDS), met)


def worker_private(features: int) -> int:
    fields = (f"workload.features={features}", "workload.rows=30000", "workload.nonzeros=39")
    peaks = peaks_of(SPARSE, *fields)
    return max(sizes["private"] for seat, sizes in peaks.items() if seat.startswith("worker"))


def compare_workers(repetitions: int) -> Iterator[tuple[str, ...]]:
    for features in FEATURES:
        private = [worker_private(features) / 1e6 for _ in range(repetitions)]
        yield f"{features:,}", spread(private, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    heads = ("a server's peak, times the model", *FIELDS, f"at most {MOST_TIMES}")
    print(table(heads, compare_servers(repetitions)), end="\n\n", flush=True)
    heads = ("weights", "most private memory of a sparse worker, MB")
    print(table(heads, compare_workers(repetitions)), flush=True)


if __name__ == "__main__":
    main()
