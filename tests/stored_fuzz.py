"""Throws damaged files at every reader of stored files.

    python -m tests.stored_fuzz [--inputs 1000000] [--seed S] [--only NAME,...]
    python -m tests.stored_fuzz --guided NAME [--inputs 1000000]

A reader may raise one of our own errors and nothing else. While it reads, nothing is imported and
nothing is written: an audit hook sees to it. The first form needs nothing else and repeats with its
seed. With `--guided`, atheris looks for inputs that reach what none has reached before.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import numpy as np

from paceline.cli import explain, summary
from paceline.compute import rates
from paceline.errors import PacelineError
from paceline.outcome import results
from paceline.outcome.facts import Facts
from paceline.outcome.outcome import Outcome, result_of
from paceline.outcome.results import Result
from paceline.parts import PARTS
from paceline.reading import frames, parquet_sizes, schema, untrusted
from paceline.spec import RunSpec
from paceline.store import sealing
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun, making_sense
from paceline.studies.folder import StudyDir
from paceline.studies.keys import key_of_table
from paceline.training.schedules import SCHEDULES
from paceline.verdict import judge
from paceline.verdict.explanation import Explanation
from paceline.workloads.data.sparse.binary import RowsHeader
from paceline.workloads.data.sparse.notes import Conversion, Notes
from paceline.workloads.data.sparse.rowset import Converted
from paceline.workloads.data.sparse.writing import Written
from tests import guided_fuzz
from tests.damage import damaged
from tests.made_runs import made

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Harm(BaseException):
    """A reader imported or wrote something; not an `Exception`, so that none swallows it."""


class _Watch:
    """Notices what a reader should not do. A hook cannot be taken away: it is switched off."""

    def __init__(self) -> None:
        self.is_on = False
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            writes = isinstance(flags, int) and flags & _WRITES
            if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
                raise Harm(f"opened {arguments[0]!r} to write")
        elif event in {
            "import",
            "exec",
            "compile",
            "subprocess.Popen",
            "os.system",
            "os.remove",
        } or event in {"os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}:
            raise Harm(f"{event}: {arguments[0]!r}")


@dataclass(frozen=True)
class Target:
    """A reader, a file that it reads gladly, and where that is."""

    path: Path
    read: Callable[[], object]
    good: bytes
    is_text: bool = True


def targets(folder: Path) -> dict[str, Target]:
    """Make a run, a study and converted rows, and name the readers of their files."""
    run = made(folder / "runs", num_workers=2).folder
    run.records.mkdir()
    facts = _facts()
    run.driver.write_text(json.dumps({"pid": 1, "host": "h", "facts": facts.table()}))
    study = folder / "study"
    study.mkdir()
    note = {"study": "mnist-logistic", "variant": "quick", "set": {"epochs": 1}}
    (study / "study.json").write_text(json.dumps(note))
    rows = _rows_folder(folder / "rows")
    job = Conversion(source=[["a", 1, 2]], kind="libsvm", coding="index", bad_rows="stop")
    notes = folder / "notes"
    notes.mkdir()
    Notes(notes, job).note(Written(num_blocks=1, num_rows=2))
    own = folder / "own.toml"
    own.write_text(_RATES)
    run.spec.write_text(RunSpec.from_table({"workload": "logistic-mnist"}).toml())
    return {
        "spec": _file(run.spec, lambda: _spec(run)),
        "result": _file(run.result, lambda: _read(run)),
        "shown": _file(run.result, lambda: _shown(run)),
        "facts": _file(run.driver, lambda: Facts.from_table(run.read_facts())),
        "rows": Target(run.seat_records("worker0"), lambda: _sealed(run, facts), _step_rows()),
        "nodes": Target(run.seat_records("node0"), lambda: _sealed(run, facts), _node_rows()),
        "environment": _file(run.environment, run.read_environment),
        "parquet": _file(
            run.evaluations, lambda: frames.read(run.evaluations, frames.EVALUATIONS), False
        ),
        "rates": _file(own, lambda: rates.device_rates(f"replay:{own}").of("logistic-mnist", "d")),
        "notes": _file(notes / "conversion.json", lambda: Notes(notes, job)),
        "study": _file(study / "study.json", StudyDir(study).noted),
        "converted": _file(rows / "rows.json", lambda: _taken(rows)),
        "starts": _file(rows / "starts.i8", lambda: _taken(rows), False),
    }


_RATES = """device = "d"
[workloads.logistic-mnist]
batch = 10
layers = [{layer = "a", forward_s = 0.1, backward_s = 0.2}]
fields = {subset = "tenth"}
"""


def _file(path: Path, read: Callable[[], object], is_text: bool = True) -> Target:
    return Target(path, read, path.read_bytes(), is_text)


def _facts() -> Facts:
    return Facts(
        workload="w",
        strategy="s",
        cluster="c",
        meaning="m",
        num_workers=2,
        batch_size=10,
        seed=0,
        target=None,
        seats={"node0": ["worker0", "worker1"]},
        num_cores={"node0": 2.0},
        tensorboard=False,
        flows=[("worker0", "worker1", 0.5, "worker0")],
    )


def _step_rows() -> bytes:
    row = {"time_s": 0.1, "worker_steps": 1, "samples": 10, "global_steps": 1, "count": 1}
    row |= {"load_s": 0.0, "compute_s": 0.05, "exchange_s": 0.01, "loss_mean": 0.5}
    rows = [row | {"time_s": 0.1 * each, "worker_steps": each} for each in range(1, 4)]
    return b"".join(json.dumps(each).encode() + b"\n" for each in rows)


def _node_rows() -> bytes:
    row = {"time_s": 0.1, "phase": "training", "cpu_percent": 90.0, "memory_bytes": 10**6}
    row |= {"disk_read_bytes": 0, "disk_written_bytes": None, "net_sent_bytes": 5}
    row |= {"net_received_bytes": 5, "packets_sent": 1, "packets_received": 1, "seats": []}
    return b"".join(json.dumps(row | {"time_s": each}).encode() + b"\n" for each in (0.1, 0.2))


def _rows_folder(folder: Path) -> Path:
    folder.mkdir()
    known = {"kind": "libsvm", "coding": "index", "width": None, "num_rows": 3, "num_features": 9}
    more = {"skipped_rows": 0, "first_skipped": "", "source": "here"}
    RowsHeader(**known, **more).write(folder)
    np.array([0, 1, 1], "<u1").tofile(folder / "labels.u1")
    np.array([0, 2, 2, 5], "<i8").tofile(folder / "starts.i8")
    np.arange(5, dtype="<u4").tofile(folder / "features.u4")
    np.ones(5, "<f4").tofile(folder / "values.f4")
    return folder


def _spec(run: RunDir) -> None:
    run.spec_text()
    key_of_table(run.read_spec())


def _read(run: RunDir) -> None:
    json.dumps(StoredRun.read(run).result.table(), allow_nan=False)


def _shown(run: RunDir) -> None:
    """Read a result and all that is printed of it."""
    from rich.console import Console

    stored = StoredRun.read(run)
    result = stored.result
    console = Console(file=io.StringIO(), width=100, highlight=False)
    summary.wide_console = lambda: console
    with making_sense(run.path):
        summary.print_result(result)
        explained = Explanation.of(result)
        explain._print(explained, [], console)
        json.dumps(explained.table())
        explained._repr_html_()
    json.dumps(result.table(), allow_nan=False)


def _sealed(run: RunDir, facts: Facts) -> Result:
    """Make a result of rows, as sealing does, and write nothing."""
    workers = [f"worker{index}" for index in range(facts.num_workers)]
    steps = [
        row
        for seat in workers
        for row in sealing._named("seat", seat, sealing._rows_of(run, seat, sealing._STEPS))
    ]
    nodes = list(sealing._named("node", "node0", sealing._rows_of(run, "node0", sealing._NODES)))
    result = result_of(run.path, facts, Outcome(status="interrupted"), steps, nodes)
    judge(result)
    json.dumps(result.table())
    return result


def _taken(folder: Path) -> None:
    rows = Converted(folder, ["libsvm"], None)
    rows.check()
    from paceline.workloads.data.sparse import binary

    examples = binary.mapped(folder, rows._known)
    examples.take(np.arange(min(len(examples), 1000)))


_watches: list[_Watch] = []


def judged(target: Target, content: bytes) -> bool:
    """Have a file of this content read; returns whether it was taken. Raises what is not ours."""
    if not _watches:  # a hook is for ever, so there is one, and only where files are thrown
        _watches.append(_Watch())
    target.path.write_bytes(content)
    _watches[0].is_on = True
    try:
        target.read()
    except PacelineError:
        return False
    finally:
        _watches[0].is_on = False
    return True


def warm_up(target: Target) -> None:
    """Read the good file, and one that is refused: whatever is imported lazily is by now."""
    untrusted.visible("\x1b")
    for catalogue in (*PARTS.values(), SCHEDULES):
        for name in catalogue.entries:
            catalogue.find(name)
    target.path.write_bytes(target.good)
    target.read()
    for content in (b"", b"[", b"\xff", b"{}", target.good[: len(target.good) // 2]):
        target.path.write_bytes(content)
        with suppress(PacelineError):
            target.read()
    assert judged(target, target.good), f"{target.path} should be taken"


def fuzz(target: Target, num_inputs: int, seed: int) -> int:
    """Damage the file so often; returns how many were still taken."""
    chance = random.Random(seed)
    warm_up(target)
    taken = 0
    for _ in range(num_inputs):
        content = damaged(chance, target.good, is_text=target.is_text)
        try:
            taken += judged(target, content)
        except BaseException:
            sys.stderr.write(f"{target.path.name} cannot take {content!r}\n")
            raise
    return taken


def guided(name: str, num_inputs: int) -> None:
    """Let atheris choose the files."""

    def work(folder: Path) -> None:
        target = targets(folder)[name]
        warm_up(target)
        corpus = folder / "corpus"
        corpus.mkdir()
        (corpus / "good").write_bytes(target.good)
        arguments = [f"-runs={num_inputs}", "-max_len=65536", str(corpus)]
        guided_fuzz.fuzz(_readers(), lambda data: judged(target, data), arguments)

    guided_fuzz.in_child(work)


def _readers() -> list[FunctionType]:
    """Functions of ours that read what others wrote."""
    modules = (untrusted, schema, parquet_sizes, results)
    found = [(module, each) for module in modules for each in vars(module).values()]
    return [
        each
        for module, each in found
        if isinstance(each, FunctionType) and each.__module__ == module.__name__
    ]


def _memory() -> str | None:
    """Files in memory are written quickest, where there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--only", default="")
    parser.add_argument("--guided", default="")
    arguments = parser.parse_args()
    if arguments.guided:
        guided(arguments.guided, arguments.inputs)
        return
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        for name, target in targets(Path(folder)).items():
            if arguments.only and name not in arguments.only.split(","):
                continue
            began_s = time.monotonic()
            taken = fuzz(target, arguments.inputs, arguments.seed)
            target.path.write_bytes(target.good)
            took_s = time.monotonic() - began_s
            print(  # noqa: T201 - a command
                f"{name}, seed {arguments.seed}: {arguments.inputs:,} files in {took_s:.0f} s, "
                f"{taken:,} taken, the others refused, nothing else raised, imported or written",
                flush=True,
            )


if __name__ == "__main__":
    main()
