"""Runs that are kept, as reports and studies read them: the result, the spec, the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from paceline.errors import PacelineError, StoreError
from paceline.outcome.results import Result
from paceline.reading import frames
from paceline.settings import flat
from paceline.store.runs import RunDir, all_runs, find_run

if TYPE_CHECKING:
    import polars

IN_PART = "in part "
# What a run is told that makes it no other run: how it is watched, and what is drawn by lot.
HOW_WATCHED = (
    *("record", "eval_every", "eval_samples", "checkpoint_every", "checkpoint_keep"),
    *("stuck_s", "when_stuck"),
)
_NOT_ITS_NATURE = (*HOW_WATCHED, "seed")


@final
@dataclass(frozen=True)
class StoredRun:
    """A run that is over. Its rows are read when they are asked for, and once."""

    folder: RunDir
    result: Result

    @classmethod
    def read(cls, folder: RunDir) -> StoredRun:
        """Read a run; one whose driver was killed is sealed first."""
        result = result_of(folder)
        if result is None:
            raise StoreError(f"{folder.path} is still running")
        return cls(folder, result)

    def check_rows(self) -> None:
        """Read the rows that reports are made of; `StoreError` where they cannot be read."""
        _ = self.steps, self.nodes, self.evaluations

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_finished(self) -> bool:
        return self.result.status == "finished"

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What was asked for, as plain tables; empty where that cannot be read."""
        try:
            return self.folder.read_spec()
        except StoreError:
            return {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The fields of the spec that make it this run and no other, by their dotted names."""
        kept = {key: value for key, value in self.spec.items() if key not in _NOT_ITS_NATURE}
        return flat(kept)

    @cached_property
    def environment(self) -> dict[str, Any]:
        try:
            return self.folder.read_environment()
        except StoreError:
            return {}

    @cached_property
    def steps(self) -> polars.DataFrame:
        """Rows of every worker; empty where none were kept."""
        return frames.read(self.folder.steps, frames.STEPS)

    @cached_property
    def nodes(self) -> polars.DataFrame:
        """Samples of every node."""
        return frames.read(self.folder.nodes, frames.NODES)

    @cached_property
    def evaluations(self) -> polars.DataFrame:
        return frames.read(self.folder.evaluations, frames.EVALUATIONS)

    @cached_property
    def losses(self) -> polars.DataFrame:
        """Every mini-batch's loss, where asked for."""
        return frames.read(self.folder.losses, frames.LOSSES)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What a reader must know of every number of this run."""
        limited = ("limited by this host",) if self.result.host_limited else ()
        return (self.result.label, *limited)


def result_of(folder: RunDir) -> Result | None:
    """Read a run's result; None while it runs. One of ours whose driver was killed is sealed first.

    Raises `StoreError`, and nothing else, whatever is in the folder.
    """
    try:
        if folder.is_sealed:
            return Result.from_table(folder.read_result())
        return None if folder.driver_is_alive() else _sealed(folder)
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder.path} cannot be read: {error}") from error


def _sealed(folder: RunDir) -> Result:
    from paceline.store.sealing import seal_abandoned

    try:
        return seal_abandoned(folder)
    except PacelineError:
        raise
    except Exception as error:  # its rows were written by who knows whom, and others are listed too
        raise StoreError(f"{folder.path} cannot be sealed: {error!r}") from error


def labels_of(runs: Iterable[StoredRun]) -> tuple[str, ...]:
    """What must be known of every number: that of all runs, or `in part` where they differ."""
    runs = list(runs)
    every = dict.fromkeys(label for run in runs for label in run.labels)
    return tuple(
        label if all(label in run.labels for run in runs) else f"{IN_PART}{label}"
        for label in every
    )


def runs_of(wanted: Iterable[str], out: Path) -> tuple[list[StoredRun], list[str]]:
    """Find runs by folder, by part of a name, as `last`, or all below a folder.

    Returns them in the order asked for, none twice, and a message for each that cannot be read.
    """
    folders: dict[Path, RunDir] = {}
    for each in wanted:
        folders |= {run.path.resolve(): run for run in _folders(each, out)}
    runs, problems = [], []
    for folder in folders.values():
        try:
            run = StoredRun.read(folder)
            run.check_rows()
            runs.append(run)
        except PacelineError as error:
            problems.append(str(error))
    return runs, problems


def _folders(wanted: str, out: Path) -> Iterator[RunDir]:
    path = Path(wanted)
    if path.is_dir() and not (path / "spec.toml").is_file():
        found = list(all_runs(path))
        if not found:
            raise StoreError(f"run = {wanted!r}: a folder without runs in it")
        yield from found
    else:
        yield find_run(wanted, out)


@contextmanager
def making_sense(what: object) -> Iterator[None]:
    """Say so where the figures of a stored run do not go together, as in one that was changed."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StoreError(f"{what}: its figures do not go together: {error!r}") from error
