"""What a run can be resumed from: folders below `checkpoints/`, each whole or not there.

checkpoints/
  .arriving/             states as the seats write them; renamed when all are there
  .leaving/              one that is too old, while it is removed
  step-000000120/
    checkpoint.json      how far the run was; size and checksum of each state
    worker0.safetensors  one state per worker and server
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, final

from paceline.errors import StoreError
from paceline.reading import schema, untrusted
from paceline.reading.schema import AnyFloat
from paceline.store.runs import RunDir
from paceline.store.whole_files import write_atomically

_FORMAT: Final = "paceline checkpoint 1"
_MANIFEST: Final = "checkpoint.json"
_NAME: Final = re.compile(r"step-(\d{9,18})")
_READ_BYTES: Final = 1 << 20


@final
@dataclass(frozen=True, kw_only=True)
class FileSum:
    """By what it can be told whether a file is whole."""

    num_bytes: int
    digest: str
    """SHA-256, in hex."""


@final
@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint is of, beside the states of its seats."""

    progress: int
    """Global steps; where there are none, steps of the furthest worker."""
    time_s: float
    """Of the training clock."""
    num_workers: int
    first: str
    """The worker whose state also has what is the same in all."""
    seats: dict[str, FileSum]
    evaluations: list[dict[str, AnyFloat]]
    """All that came before."""
    next_evaluation: int | None = None
    format: str = _FORMAT


@final
@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is whole: every file is as it was written."""

    folder: Path
    manifest: Manifest

    @property
    def progress(self) -> int:
        return self.manifest.progress

    def state(self, seat: str) -> Path:
        """Name the file of a seat's state; raises `StoreError` where it has none."""
        if seat not in self.manifest.seats:
            have = ", ".join(self.manifest.seats)
            raise StoreError(f"{self.folder}: it has no state of {seat} (it has: {have})")
        return seat_state(self.folder, seat)


def seat_state(folder: Path, seat: str) -> Path:
    """Name the file of a seat's state."""
    return folder / f"{seat}.safetensors"


def snapshot_of(run: RunDir, server: str) -> Path:
    """Name the snapshot that a server goes back to: its newest, or the one that all agreed on."""
    agreed = run.agreed_snapshots
    return seat_state(agreed if agreed.exists() else run.snapshots, server)


def folder_of(run: RunDir, progress: int) -> Path:
    """Name the checkpoint that a run has of a progress."""
    return run.checkpoints / f"step-{progress:09d}"


def complete(run: RunDir, manifest: Manifest, num_kept: int) -> None:
    """All states have arrived: make a checkpoint of them, and remove those that are too old."""
    for seat in manifest.seats:
        if not seat_state(run.arriving, seat).is_file():
            raise StoreError(f"{run.arriving}: the state of {seat} is not there")
    write_atomically(run.arriving / _MANIFEST, _text(manifest))
    _make_last(run.arriving)
    run.arriving.rename(folder_of(run, manifest.progress))
    _make_last(run.checkpoints)
    for old in folders(run)[num_kept:]:
        _remove(old, run.leaving)


def _remove(old: Path, leaving: Path) -> None:
    """Remove a checkpoint: whoever is killed in the middle leaves no part of one under its name."""
    shutil.rmtree(leaving, ignore_errors=True)  # of one that was
    with contextlib.suppress(OSError):
        old.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)


def _text(manifest: Manifest) -> str:
    table = dataclasses.asdict(manifest)
    return json.dumps({**table, "digest": _digest_of(table)}, indent=1) + "\n"


def _digest_of(table: Mapping[str, Any]) -> str:
    """Sum up a table: what is read back gives the same, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _read_manifest(path: Path) -> Manifest:
    table = untrusted.read_json(path)
    if not isinstance(table, dict) or table.pop("digest", None) != _digest_of(table):
        raise ValueError(f"{path.name} is damaged: its checksum is another one")
    manifest = schema.read(Manifest, table, strict=True)
    if manifest.format != _FORMAT:
        raise ValueError(f"its format is {manifest.format!r}; expected {_FORMAT!r}")
    return manifest


def clear_arriving(run: RunDir) -> None:
    """Remove what is left of a checkpoint that never was whole."""
    shutil.rmtree(run.arriving, ignore_errors=True)


def _make_last(folder: Path) -> None:
    """Have the names in a folder outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folders(run: RunDir) -> list[Path]:
    """Give the folders of a run's checkpoints, the newest first; none is looked into."""
    try:
        names = [entry.name for entry in os.scandir(run.checkpoints)]
    except OSError:
        return []
    known = [(int(match[1]), name) for name in names if (match := _NAME.fullmatch(name))]
    return [run.checkpoints / name for _, name in sorted(known, reverse=True)]


def newest(run: RunDir) -> tuple[Checkpoint, list[str]]:
    """Give the newest checkpoint that is whole, and what is wrong with newer ones.

    Raises `StoreError` where there is none.
    """
    problems: list[str] = []
    for folder in folders(run):
        try:
            return opened(folder), problems
        except StoreError as error:
            problems.append(str(error))
    said = "; ".join(problems) or (
        "it ran without --checkpoint-every, or ended before the first one was whole"
    )
    anew = f"`paceline run {run.spec}` begins anew"
    raise StoreError(f"{run.path} has no checkpoint to resume from: {said}; {anew}")


def opened(folder: Path) -> Checkpoint:
    """Read a checkpoint and see that every file is as it was written; else `StoreError`."""
    try:
        manifest = _read_manifest(folder / _MANIFEST)
        for seat, written in manifest.seats.items():
            _check(seat_state(folder, seat), written)
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: not a whole checkpoint: {error}") from error
    return Checkpoint(folder, manifest)


def _check(path: Path, written: FileSum) -> None:
    with untrusted.opened(path) as file:
        num_bytes = file.seek(0, os.SEEK_END)
        if num_bytes != written.num_bytes:
            raise ValueError(f"{path.name} has {num_bytes:,} bytes, not {written.num_bytes:,}")
        file.seek(0)
        if _digest(file) != written.digest:
            raise ValueError(f"{path.name} is damaged: its checksum is another one")


def _digest(file: BinaryIO) -> str:
    summed = hashlib.sha256()
    for block in _blocks(file):
        summed.update(block)
    return summed.hexdigest()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_READ_BYTES):
        yield block


def lay_out(checkpoint: Checkpoint, run: RunDir) -> None:
    """Have another run begin with a checkpoint: under the same files, where that is possible."""
    clear_arriving(run)
    run.arriving.mkdir(parents=True)
    for seat in checkpoint.manifest.seats:
        _link_or_copy(checkpoint.state(seat), seat_state(run.arriving, seat))
    complete(run, checkpoint.manifest, num_kept=1)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def as_rows(evaluations: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Give evaluations as a manifest has them: numbers by name."""
    return [_numbers(row) for row in evaluations]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}
