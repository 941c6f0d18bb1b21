"""What `paceline.wrap` costs a script: in a run of `single` over bare, and `ring` over a Workload.

    python benchmarks/scripts.py [--blocks 24] [--seconds 0.5] [--runs 5] [--file FILE]

Bare script and script in a run live side by side, each in its process, and make blocks of steps in
turns; whoever has no turn waits. A figure is the median over blocks of bare over wrapped, by the
clock and by CPU seconds, with its 95 % interval. `ring` is compared in whole runs, in turns. Each
block and run is kept in the file as it is measured. After `--most-seconds` a kind gives what it
has, but not before it has 20 blocks: a figure of fewer, as `--blocks` may ask for, is not judged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from before_after import Interval
from ratios import alternate
from script_loop import KINDS

import paceline

HERE = Path(__file__).parent
WANTED = {"mlp": 0.97, "transformer": 0.99}
RING_WANTED = 0.95
_PATIENCE_S = 120.0
LEAST_BLOCKS = 20
"""What a figure is judged by, however long they take."""


class Kept:
    """A file to which every measurement is added when it is made."""

    def __init__(self, path: Path, most_s: float) -> None:
        self._path = path
        self.most_s = most_s
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **row: str | float) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "load": os.getloadavg()[0]}) + "\n")


class Side:
    """A script that makes blocks of steps when it is asked to."""

    def __init__(self, folder: Path, name: str) -> None:
        self.place = str(folder / f"{name}.socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.place)
        self._listener.listen(1)
        self._listener.settimeout(_PATIENCE_S)

    def connect(self) -> None:
        self._line, _ = self._listener.accept()
        self._line.settimeout(_PATIENCE_S)

    def block(self, steps: int) -> tuple[float, float]:
        """Seconds of the clock, and of the processor."""
        self._line.sendall(str(steps).encode())
        wall, cpu = self._line.recv(100).decode().split()
        return float(wall), float(cpu)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._line.close()
        self._listener.close()


@contextlib.contextmanager
def both(kind: str, threads: int) -> Iterator[tuple[Side, Side]]:
    """A bare script and one in a run, both waiting for their turn."""
    script = HERE / "script_loop.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare, wrapped = Side(folder, "bare"), Side(folder, "wrapped")
        command = [sys.executable, str(script), kind, bare.place, str(threads)]
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        settings = {
            "workload": {"args": [kind, wrapped.place, str(threads)]},
            "threads": threads,
            "out": folder / "runs",
        }
        run = threading.Thread(target=lambda: paceline.run(str(script), **settings))  # type: ignore[arg-type]
        run.start()
        try:
            bare.connect()
            wrapped.connect()
            yield bare, wrapped
        finally:
            bare.end()
            wrapped.end()
            process.wait(_PATIENCE_S)
            run.join(_PATIENCE_S)


def measured(
    bare: Side, wrapped: Side, steps: int, blocks: int, until: float
) -> Iterator[tuple[float, float]]:
    """Make blocks in turns; gives bare over wrapped, by the clock and by CPU seconds."""
    for number in range(blocks):
        if number >= LEAST_BLOCKS and time.monotonic() > until:
            return
        took = {
            side: side.block(steps) for side in ((bare, wrapped) if number % 2 else (wrapped, bare))
        }
        clock, cpu = (one / other for one, other in zip(took[bare], took[wrapped], strict=True))
        yield clock, cpu


def judged(kind: str, ratios: Sequence[tuple[float, float]]) -> bool:
    """Print both figures; returns whether they are what is wanted, and of enough blocks."""
    wanted, is_enough = WANTED[kind], len(ratios) >= LEAST_BLOCKS
    intervals = [Interval.of(each) for each in zip(*ratios, strict=True)]
    for way, each in zip(("clock", "CPU seconds"), intervals, strict=True):
        title = f"wrapped over bare, single, {kind}, by {way}"
        few = f"{title}: {each.median:.4f}, not judged: n={each.count}, at least {LEAST_BLOCKS}"
        print(each.line(title, wanted) if is_enough else few, flush=True)
    return is_enough and all(each.median >= wanted for each in intervals)


def single(kind: str, blocks: int, seconds: float, threads: int, kept: Kept) -> bool:
    until = time.monotonic() + kept.most_s
    ratios = []
    with both(kind, threads) as (bare, wrapped):
        steps = 20
        while (took := bare.block(steps)[0]) < seconds / 2:
            steps = max(2 * steps, int(steps * seconds / took))
        wrapped.block(steps)
        for clock, cpu in measured(bare, wrapped, steps, blocks, until):
            ratios.append((clock, cpu))
            kept.add(kind=kind, steps=steps, clock=clock, cpu=cpu)
    return judged(kind, ratios)


def ring(runs: int, seconds: float, kept: Kept) -> bool:
    """The same model, batch and optimizer as a script and as a Workload, with two workers."""
    with tempfile.TemporaryDirectory() as folder:
        common = {
            "strategy": "ring",
            "num_workers": 2,
            "threads": 1,
            "seconds": seconds,
            "out": folder,
        }

        def as_script() -> float:
            result = paceline.run(str(HERE / "script_mlp.py"), **common)  # type: ignore[arg-type]
            kept.add(kind="ring, script", steps_per_s=result.steps_per_s or 0.0)
            return result.steps_per_s or 0.0

        def as_workload() -> float:
            what = f"{HERE / 'script_mlp.py'}:Mlp"
            result = paceline.run(what, batch=64, eval_samples=10, **common)  # type: ignore[arg-type]
            kept.add(kind="ring, Workload", steps_per_s=result.steps_per_s or 0.0)
            return result.steps_per_s or 0.0

        ratio = alternate(
            "script over Workload, ring, 2 workers, mlp", as_script, as_workload, runs
        )
    print(ratio.line(RING_WANTED))
    return ratio.is_met(RING_WANTED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each block")
    parser.add_argument("--runs", type=int, default=5, help="of ring, of each side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=[*KINDS, "ring"])
    parser.add_argument("--file", type=Path, default=Path("build/scripts.jsonl"))
    parser.add_argument("--most-seconds", type=float, default=240.0, help="of each kind")
    given = parser.parse_args()
    kept = Kept(given.file, given.most_seconds)
    met = [
        single(kind, given.blocks, given.seconds, given.threads, kept)
        for kind in KINDS
        if given.only in {None, kind}
    ]
    if given.only in {None, "ring"}:
        met.append(ring(given.runs, seconds=4.0, kept=kept))
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
