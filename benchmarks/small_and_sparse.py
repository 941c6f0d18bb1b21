"""Small and sparse models against everything they are measured by, in one go of bounded length.

    python benchmarks/small_and_sparse.py --peers .venv-peers/bin/python \\
        --before ../before/.venv/bin/python [--minutes 9] [--kept small-and-sparse.jsonl] [--only …]

Logistic regression on all of MNIST: parameter servers and `ring` over `solo`, torch's DDP and
TensorFlow. Rows of Criteo's shape, skewed, batch 100, 33.7 million weights: over TensorFlow on the
same rows, over another checkout (--before), Adagrad's time over SGD's, TFRecord files in the first
epoch and from the second on. `ring`'s next batch gathered during an exchange: over a copy of this
checkout that does not. Logistic regression over another checkout is before_after.py's
(`make bench-before`).

A round measures every side once, each round beginning with another; rounds follow until the time is
over. What was measured is kept at once: called again with the same file, it goes on, and a ratio is
of one round. Beside the rate stand CPU seconds per row or step of all processes, which mean
something on a busy machine too. Without --peers or --before, or where there is no such python,
their sides are left out, which is said.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import skewed_rows
from before_after import LOGISTIC, Checkout
from bounded import DidNotRun
from contenders import CONTENDERS, Bench, Contender
from sparse_rows import later_rows_per_s
from trials import spread, table

from paceline.workloads.data.catalogue import default_data_dir

SECONDS = 2.0
FEW = {"worker_steps": 3}
MNIST = {**LOGISTIC, "workload": "logistic-mnist"}
QUIET = {"tensorboard": False, "model": False}
SGD, ADAGRAD = {"name": "sgd", "lr": 0.01}, {"name": "adagrad", "lr": 0.01}
GATHERS_EARLY, NEVER = "elif feed.gathers_early:", "elif False:"

Rate = tuple[float, float | None]
"""How many per second, and CPU seconds of each, if they are known."""


@dataclass(frozen=True)
class Wanted:
    """A side's rate over another's."""

    ours: str
    theirs: str
    least: float | None = None
    most: float | None = None

    def verdict(self, ratio: float) -> str:
        if not self.bounds:
            return ""
        least, most = self.least or 0.0, math.inf if self.most is None else self.most
        return "met" if least <= ratio <= most else "MISSED"

    @property
    def bounds(self) -> str:
        if self.most is not None:
            return f"at most {self.most:g}"
        return "" if self.least is None else f"{self.least:g}"


RATIOS = (
    Wanted("ps-async 3", "solo 3", 0.8),
    Wanted("ps-sync 3", "solo 3", 0.5),
    Wanted("ps-sync 2", "solo 2", 0.7),
    Wanted("ring 3", "solo 3", 0.58),
    Wanted("ring 2", "solo 2", 0.77),
    Wanted("ring 3", "ddp 3", 5),
    Wanted("ring 2", "ring 2, batches in turn"),
    Wanted("ps-async 3", "tensorflow-async-100", 8),
    Wanted("rows ps-async 3", "tensorflow-skewed", 8),
    Wanted("rows single", "rows single, Adagrad", most=1.3),
    Wanted("rows ps-async 3", "rows ps-async 3, Adagrad", most=1.3),
    Wanted("rows later epochs of files", "rows later epochs", 0.95),
    Wanted("rows single", "rows single, before", 1.7),
    Wanted("rows single, Adagrad", "rows single, Adagrad, before"),
    Wanted("rows ps-async 3", "rows ps-async 3, before"),
    Wanted("rows ps-async 3, Adagrad", "rows ps-async 3, Adagrad, before"),
    Wanted("rows from files", "rows from files, before", 3),
)


def tables(rows: skewed_rows.SkewedRows) -> dict[str, dict[str, Any]]:
    """The runs, by the names of their sides; sides of another checkout have the same."""
    found: dict[str, dict[str, Any]] = {}
    for strategy, count in (
        *(("solo", 3), ("ps-async", 3), ("ps-sync", 3), ("ring", 3), ("ddp", 3)),
        *(("solo", 2), ("ps-sync", 2), ("ring", 2)),
    ):
        found[f"{strategy} {count}"] = {**MNIST, "strategy": strategy, "num_workers": count}
    converted = {"workload": rows.workload(rows.converted), "batch": 100, "threads": 1}
    for ending, optimizer in (("", SGD), (", Adagrad", ADAGRAD)):
        single = {**converted, "strategy": "single", "optimizer": optimizer}
        found[f"rows single{ending}"] = single
        found[f"rows ps-async 3{ending}"] = {**single, "strategy": "ps-async", "num_workers": 3}
    files = {"workload": rows.workload(rows.files), "epochs": 1}
    found["rows from files"] = {**found["rows single"], **files}
    for each in found.values():
        each.update(record=QUIET, eval_samples=100)
        if "epochs" not in each:
            each["seconds"] = SECONDS
    return found


@dataclass
class Side:
    """A run of some checkout, again and again."""

    checkout: Callable[[], Checkout]
    table: Mapping[str, Any]
    idle_s: float | None = None
    """CPU seconds of a run of a few steps."""

    def measure(self) -> Rate:
        checkout, num_rows = self.checkout(), self.table.get("batch", 1)
        if self.idle_s is None:
            few = {
                key: each for key, each in self.table.items() if key not in ("seconds", "epochs")
            }
            # The second: the first also reads files, and imports what the zygote is to have.
            _, self.idle_s = (checkout.run({**few, **FEW})["cpu_s"] for _ in range(2))
        told = checkout.run(dict(self.table))
        cpu_s = (told["cpu_s"] - self.idle_s) / (told["steps"] * num_rows)
        return told["steps_per_s"] * num_rows, cpu_s


@dataclass
class Checkouts:
    """Pythons that carry out runs, started when they are first asked."""

    stack: ExitStack
    started: dict[str, Checkout] = field(default_factory=dict)

    def of(self, python: str) -> Callable[[], Checkout]:
        return lambda: self.started.get(python) or self._start(python)

    def _start(self, python: str) -> Checkout:
        script = Path(__file__).with_name("before_after.py")
        made = self.started[python] = Checkout(python, script=str(script))
        self.stack.callback(made.end)
        return made


def in_turn(folder: Path) -> str:
    """Copy this checkout, without gathering a batch while an exchange is under way; its python."""
    import paceline

    shutil.copytree(Path(paceline.__file__).parent, folder / "paceline")
    session = folder / "paceline" / "engine" / "session.py"
    text = session.read_text()
    if text.count(GATHERS_EARLY) != 1:
        raise SystemExit(f"{session.name} no longer says {GATHERS_EARLY!r}: what to compare with?")
    session.write_text(text.replace(GATHERS_EARLY, NEVER))
    python = folder / "python"
    # `Checkout` lets no PYTHONPATH through.
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def later(workload: dict[str, Any]) -> Rate:
    return later_rows_per_s(workload), None


def of_peer(peer: Contender, bench: Bench) -> Rate:
    return peer.measure(bench).rate, None


def sides(arguments: argparse.Namespace, stack: ExitStack) -> dict[str, Callable[[], Rate]]:
    """All that can be measured here, by name."""
    rows, checkouts = skewed_rows.made(), Checkouts(stack)
    runs = tables(rows)
    found: dict[str, Callable[[], Rate]] = {}

    def add(ending: str, python: str, names: Iterator[str]) -> None:
        for name in names:
            found[name + ending] = Side(checkouts.of(python), runs[name]).measure

    add("", sys.executable, iter(runs))
    copy = in_turn(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    add(", batches in turn", copy, iter(("ring 2",)))
    kept = {"source": "generated", "rows": skewed_rows.NUM_ROWS}
    for name, workload in (
        ("rows later epochs of files", {**kept, "name": "logistic-criteo"}),
        ("rows later epochs", rows.workload(rows.converted)),
    ):
        found[name] = partial(later, workload)
    if arguments.before:
        add(", before", arguments.before, (each for each in runs if each.startswith("rows ")))
    if arguments.peers:
        bench = Bench(Path(arguments.peers).absolute(), default_data_dir(), 1.0, 3.0)
        by_name = {each.name: each for each in CONTENDERS}
        for name in ("tensorflow-async-100", "tensorflow-skewed"):
            found[name] = partial(of_peer, by_name[name], bench)
    return found


def there(option: str, python: str | None) -> str | None:
    """Give a python that can be started; of any other, say at once what is not measured."""
    if python is not None and shutil.which(python) is not None:
        return python
    why = f"no {option}" if python is None else f"{option} {python}: no such program"
    print(f"{why}: measured without its sides", flush=True)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", help="the peers' python")
    parser.add_argument("--before", help="python of the checkout to compare with")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--kept", type=Path, default=Path("small-and-sparse.jsonl"))
    parser.add_argument("--only", default="", help="ratios whose sides have this in their names")
    arguments = parser.parse_args()
    arguments.peers = there("--peers", arguments.peers)
    arguments.before = there("--before", arguments.before)
    ends_s = time.monotonic() + 60 * arguments.minutes
    with ExitStack() as stack:
        every = sides(arguments, stack)
        held = [
            each
            for each in RATIOS
            if {each.ours, each.theirs} <= every.keys()
            and arguments.only in f"{each.ours} / {each.theirs}"
        ]
        names = [name for name in every if any(name in (e.ours, e.theirs) for e in held)]
        rounds(names, every, arguments.kept, ends_s)
    print(told(held, read_kept(arguments.kept)))


def rounds(
    names: list[str], every: Mapping[str, Callable[[], Rate]], kept: Path, ends_s: float
) -> None:
    """Measure until the time is over, and go on where an earlier call ended."""
    done, broken = read_kept(kept), set[str]()
    number = min((len(done.get(name, ())) for name in names), default=0)
    while time.monotonic() < ends_s and len(broken) < len(names):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            if name in broken or len(done.get(name, ())) > number or time.monotonic() > ends_s:
                continue
            try:
                rate, cpu_s = every[name]()
            except DidNotRun as error:
                broken.add(name)
                print(f"{name} did not run: {error}", flush=True)
                continue
            done.setdefault(name, []).append((rate, cpu_s))
            with kept.open("a") as file:
                file.write(json.dumps({"side": name, "rate": rate, "cpu_s": cpu_s}) + os.linesep)
            print(f"round {number + 1}: {name}: {rate:,.0f}/s{_each(cpu_s)}", flush=True)
        number += 1


def read_kept(path: Path) -> dict[str, list[Rate]]:
    found: dict[str, list[Rate]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        each = json.loads(line)
        found.setdefault(each["side"], []).append((each["rate"], each["cpu_s"]))
    return found


def _each(cpu_s: float | None) -> str:
    return "" if cpu_s is None else f", {1e6 * cpu_s:.2f} µs of CPU each"


def told(ratios: list[Wanted], done: Mapping[str, list[Rate]]) -> str:
    """Two tables: ratios of rounds, and what was measured."""
    lines = []
    for each in ratios:
        pairs = [*zip(done.get(each.ours, ()), done.get(each.theirs, ()), strict=False)]
        if not pairs:
            lines.append((each.ours, each.theirs, "not both ran", "", each.bounds, ""))
            continue
        by_clock = [ours[0] / theirs[0] for ours, theirs in pairs]
        by_cpu = [theirs[1] / ours[1] for ours, theirs in pairs if ours[1] and theirs[1]]
        shown = spread(by_cpu, 2) if by_cpu else ""
        verdict = each.verdict(statistics.median(by_clock))
        lines.append((each.ours, each.theirs, spread(by_clock, 2), shown, each.bounds, verdict))
    heads = ("ours", "over", "rate", "per CPU second", "wanted", "")
    rates = [
        (name, spread([rate for rate, _ in each]), _each(_middle(each)).lstrip(", "))
        for name, each in done.items()
    ]
    return table(heads, lines) + "\n\n" + table(("side", "per second", "CPU"), rates)


def _middle(rates: list[Rate]) -> float | None:
    known = [cpu_s for _, cpu_s in rates if cpu_s is not None]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    main()
