"""The run directory: the only place that knows its files' names.

runs/20261115-204512-logistic-mnist-single-3fa9c1/
  spec.toml           what was asked for, every field
  environment.json    the machine, versions, git state
  source/             the user's own workload or strategy, as it was
  driver.json         which process runs it, and its facts; removed by the seal
  records/            rows as they are written, one file a process; removed by the seal
  logs/               what each seat printed
  steps.parquet       time, loss and spans of every worker     (from records/)
  nodes.parquet       CPU, memory, disk, network of every node (from records/)
  evaluations.parquet accuracy on the test rows
  losses.parquet      every mini-batch's loss, where asked for; model.safetensors the parameters
  checkpoints/        what it can be resumed from; snapshots/: the newest states of each server
  tensorboard/        the same as TensorBoard events
  profile/            a few steps operator by operator, where asked for
  result.json         the seal: written last, and nothing is written after it
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, final

from paceline.errors import StoreError
from paceline.reading import untrusted
from paceline.reading.schema import fits
from paceline.seats import parsed
from paceline.store.whole_files import write_atomically, written_beside
from paceline.system.linux import own_pid

DEFAULT_OUT: Final = Path("runs")
"""Where runs are kept, unless somebody says otherwise."""
# Freed just before the seal is written, so that a run which filled the disk can still say so.
_BALLAST_BYTES: Final = 1 << 18
# How much of a log is read at once.
_MOST_LOG_BYTES: Final = 1 << 18
# Another host may not see our locks, but everybody sees that rows come. After so long without any
# its driver is gone.
_QUIET_S: Final = 60.0
_OPERATOR: Final = {"operator": str, "ms_per_step": float}
_MORE_OF_IT: Final = {
    "input_shapes": list[Any],
    "output_shape": list[int] | None,
    "output_bytes": int | None,
    "calls_per_step": float,
}


@final
class RunDir:
    """One run's directory, by the names of its parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = path / "spec.toml"
        self.environment = path / "environment.json"
        self.source = path / "source"
        self.driver = path / "driver.json"
        self.records = path / "records"
        self.logs = path / "logs"
        self.steps = path / "steps.parquet"
        self.nodes = path / "nodes.parquet"
        self.evaluations = path / "evaluations.parquet"
        self.losses = path / "losses.parquet"
        self.model = path / "model.safetensors"
        self.checkpoints = path / "checkpoints"
        self.arriving = self.checkpoints / ".arriving"
        self.leaving = self.checkpoints / ".leaving"
        self.snapshots = path / "snapshots"
        self.agreed_snapshots = self.snapshots / "agreed"
        self.tensorboard = path / "tensorboard"
        self.profile = path / "profile"
        self.result = path / "result.json"
        self._ballast = path / ".ballast"
        self._lock: int | None = None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_sealed(self) -> bool:
        return os.path.lexists(self.result)

    @property
    def is_begun(self) -> bool:
        """Whether this is the folder of a run; one that may not be looked into could be."""
        try:
            return self.spec.is_file() or self.driver.is_file()
        except PermissionError:
            return True
        except (OSError, ValueError):
            return False

    def age_key(self) -> tuple[str, int, str]:
        """Sort runs by when they began: their names tell the second, the spec's file the rest."""
        try:
            began_ns = self.spec.lstat().st_mtime_ns
        except OSError:
            began_ns = 0
        return self.name[:15], began_ns, self.name

    def seat_records(self, seat: str) -> Path:
        return self.records / f"{seat}.jsonl"

    def seat_losses(self, seat: str) -> Path:
        return self.records / f"{seat}.f32"

    def seat_log(self, seat: str) -> Path:
        """Name a seat's log; raises `ValueError` where that is no seat, but a path perhaps."""
        parsed(seat)
        return self.logs / f"{seat}.log"

    def seat_trace(self, seat: str) -> Path:
        return self.profile / f"{seat}.trace.json"

    def seat_operators(self, seat: str) -> Path:
        return self.profile / f"{seat}.operators.json"

    def partial(self) -> Path:
        """Name a file that is not yet whole; the seal removes what is left of those."""
        return self.path / f".{secrets.token_hex(8)}.tmp"

    def read_result(self) -> dict[str, Any]:
        """Read the seal."""
        return self._read_json(self.result)

    def read_environment(self) -> dict[str, Any]:
        return self._read_json(self.environment)

    def read_spec(self) -> dict[str, Any]:
        """Read what was asked for, as plain tables: nothing that it names is imported."""
        try:
            return untrusted.read_toml(self.spec)
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.spec} cannot be read: {error}") from error

    def spec_text(self) -> str:
        """Give what was asked for as it is written, to be shown."""
        try:
            return untrusted.visible(untrusted.read_text(self.spec, untrusted.MOST_TOML_BYTES))
        except (OSError, ValueError):
            return "# spec.toml cannot be read"

    def read_operators(self, seat: str) -> list[dict[str, Any]]:
        """Read what a profile saw of a seat; empty where there was none."""
        path = self.seat_operators(seat)
        try:
            rows = untrusted.read_json(path)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        if not isinstance(rows, list) or not all(fits(row, _OPERATOR, _MORE_OF_IT) for row in rows):
            raise StoreError(f"{path} does not hold a list of operators")
        return rows

    def log_tail(self, seat: str, num_lines: int = 25) -> str:
        """Give the last lines that a seat printed."""
        text = self.log_from(seat, max(0, self.log_bytes(seat) - _MOST_LOG_BYTES))
        return "\n".join(text.splitlines()[-num_lines:])

    def check_there(self) -> None:
        """Raise `StoreError` if somebody has removed the folder, or what is written in it."""
        if not self.records.exists():
            raise StoreError(f"{self.path} was removed while the run went on")

    def log_bytes(self, seat: str) -> int:
        """Say how long a seat's log is by now."""
        try:
            return self.seat_log(seat).stat().st_size
        except OSError:
            return 0

    def log_from(self, seat: str, start: int) -> str:
        """Read a seat's log from a place on, and no more than can be shown: it may be huge."""
        try:
            with self.seat_log(seat).open("rb") as file:
                file.seek(start)
                return file.read(_MOST_LOG_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def seal(self, result: dict[str, Any]) -> None:
        """Write the result; from then on the run is never changed."""
        if self.is_sealed:
            raise StoreError(f"{self.path} is sealed already")
        self.free_ballast()
        write_atomically(self.result, json.dumps(result, indent=2, allow_nan=False) + "\n")
        with contextlib.suppress(OSError):
            self.driver.unlink(missing_ok=True)
            # of processes killed while writing
            for unfinished in (*self.path.glob(".*.tmp"), *self.profile.glob(".*.tmp")):
                unfinished.unlink()
            for folder in (self.records, self.arriving, self.leaving, self.snapshots):
                shutil.rmtree(folder, ignore_errors=True)
        self.let_go()

    def free_ballast(self) -> None:
        """Give back the space kept for the seal."""
        self._ballast.unlink(missing_ok=True)

    def driver_is_alive(self) -> bool:
        """Say whether the process that runs this run is still there: it holds a lock.

        Locks may not reach from host to host: a run of another one is alive while rows come.
        """
        try:
            with untrusted.opened(self.driver) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return self._is_of_another_host() and not self._is_quiet()

    def hold(self) -> None:
        """Become the one that writes this run. The lock ends with the process, however it ends."""
        try:
            with untrusted.opened(self.driver) as file:
                self._lock = os.dup(file.fileno())
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.let_go()
            raise StoreError(f"{self.path} is being written by another process") from error

    def why_not_ours(self) -> str | None:
        """Say why this folder is not for us to write in; None where it is."""
        for path in (self.path, self.driver, self.records):
            try:
                found = path.lstat()
            except OSError as error:
                return f"{path.name}: {error.strerror}"
            if stat.S_ISLNK(found.st_mode):
                return f"{path.name} is a link"
            if found.st_uid != os.geteuid():
                return f"{path.name} belongs to another user (uid {found.st_uid})"
        # Events would be written wherever it leads; an archive makes links that belong to us.
        return "tensorboard is a link" if self.tensorboard.is_symlink() else None

    def _is_of_another_host(self) -> bool:
        try:
            told = self._read_json(self.driver).get("host")
        except StoreError:
            return False
        return told is not None and told != os.uname().nodename

    def _is_quiet(self) -> bool:
        """Whether nothing was written to its rows for a while."""
        newest_s = 0.0
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.records):
                newest_s = max(newest_s, entry.stat(follow_symlinks=False).st_mtime)
            newest_s = max(newest_s, self.driver.lstat().st_mtime)
        return time.time() - newest_s > _QUIET_S

    def let_go(self) -> None:
        """Let others write this run."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _read_json(self, path: Path) -> dict[str, Any]:
        try:
            content = untrusted.read_json(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise StoreError(f"{path} does not hold a JSON object")
        return content

    def append_evaluation(self, row: dict[str, Any]) -> None:
        """Keep an evaluation at once: the driver may be killed before the seal."""
        self._append("evaluations", row)

    def append_link(self, row: dict[str, Any]) -> None:
        """Keep what is known of a node's link, for the same reason."""
        self._append("links", row)

    def append_warning(self, text: str) -> None:
        """Keep what a reader should know, for the same reason."""
        self._append("warnings", {"text": text})

    def _append(self, name: str, row: dict[str, Any]) -> None:
        with contextlib.suppress(OSError), self.seat_records(name).open("a") as file:
            file.write(json.dumps(row) + "\n")

    def read_facts(self) -> dict[str, Any]:
        """Read what the driver noted before it started anything."""
        facts = self._read_json(self.driver).get("facts")
        if not isinstance(facts, dict):
            raise StoreError(f"{self.driver} holds no facts")
        return facts

    def lay_out(self, spec: str, facts: dict[str, Any], environment: dict[str, Any]) -> None:
        """Write what is known before anything starts."""
        self.records.mkdir()
        self.logs.mkdir()
        self._begin({"pid": own_pid(), "host": os.uname().nodename, "facts": facts})
        write_atomically(self.spec, spec)
        write_atomically(self.environment, json.dumps(environment, indent=2) + "\n")
        with self._ballast.open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, _BALLAST_BYTES)

    def _begin(self, driver: dict[str, Any]) -> None:
        """Write who runs this, locked before it can be seen: others would think it abandoned."""

        def write(file: BinaryIO) -> None:
            file.write(json.dumps(driver).encode())
            self._lock = os.dup(file.fileno())
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

        written_beside(self.driver, write)


def create_run(
    out: Path, label: str, *, spec: str, facts: dict[str, Any], environment: dict[str, Any]
) -> RunDir:
    """Make a new run directory below `out`. Leaves nothing there when it cannot be written."""
    moment = time.strftime("%Y%m%d-%H%M%S")
    run = RunDir(out / f"{moment}-{label}-{secrets.token_hex(3)}")
    is_ours = False
    try:
        run.path.mkdir(parents=True)
        is_ours = True
        run.lay_out(spec, facts, environment)
    except OSError as error:
        if is_ours:
            run.let_go()
        shutil.rmtree(run.path, ignore_errors=True)
        raise StoreError(f"cannot write a run to {out}: {error.strerror or error}") from error
    return run


def all_runs(out: Path) -> Iterator[RunDir]:
    """Yield the runs below a folder, oldest first."""
    if not out.is_dir():
        return
    begun = [run for run in map(RunDir, out.iterdir()) if run.is_begun]
    yield from sorted(begun, key=RunDir.age_key)


def find_run(wanted: str, out: Path) -> RunDir:
    """Find a run by its path, by any part of its name that only it has, or as `last`."""
    path = Path(wanted)
    if (path / "spec.toml").is_file():
        return RunDir(path)
    runs = list(all_runs(out))
    if wanted == "last" and runs:
        return runs[-1]
    matching = [run for run in runs if wanted in run.name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(run.name for run in matching[:5])
        raise StoreError(f"run = {wanted!r}: {len(matching)} runs in {out} match: {names}, …")
    raise StoreError(f"run = {wanted!r}: no such run in {out}; `paceline ls` lists them")
