"""Runs that are kept, as reports and studies read them: the result, the spec, the rows."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from paceline.errors import PacelineError, StoreError
from paceline.results import Result
from paceline.runs import RunDir, all_runs, find_run

if TYPE_CHECKING:
    import polars

IN_PART = "in part "
# What a run is told that makes it no other run: how it is watched, and what is drawn by lot.
HOW_WATCHED = ("record", "eval_every", "eval_samples", "stuck_s", "when_stuck")
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
        try:
            if not folder.is_sealed and folder.driver_is_alive():
                raise StoreError(f"{folder.path} is still running")
            if folder.is_sealed:
                return cls(folder, Result.from_table(folder.read_result()))
            from paceline.sealing import seal_abandoned

            return cls(folder, seal_abandoned(folder))
        except (OSError, KeyError, TypeError) as error:
            raise StoreError(f"{folder.path} cannot be read: {error!r}") from error

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
            return tomllib.loads(self.folder.spec.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The fields of the spec that make it this run and no other, by their dotted names."""
        kept = {key: value for key, value in self.spec.items() if key not in _NOT_ITS_NATURE}
        return dict(_flat(kept, ""))

    @cached_property
    def environment(self) -> dict[str, Any]:
        try:
            return self.folder.read_environment()
        except StoreError:
            return {}

    @cached_property
    def steps(self) -> polars.DataFrame:
        """Rows of every worker; empty where none were kept."""
        return _frame(self.folder.steps)

    @cached_property
    def nodes(self) -> polars.DataFrame:
        """Samples of every node."""
        return _frame(self.folder.nodes)

    @cached_property
    def evaluations(self) -> polars.DataFrame:
        return _frame(self.folder.evaluations)

    @cached_property
    def losses(self) -> polars.DataFrame:
        """Every mini-batch's loss, where asked for."""
        return _frame(self.folder.losses)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What a reader must know of every number of this run."""
        limited = ("limited by this host",) if self.result.host_limited else ()
        return (self.result.label, *limited)


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
            runs.append(StoredRun.read(folder))
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


def _frame(path: Path) -> polars.DataFrame:
    import polars

    if not path.exists():
        return polars.DataFrame()
    try:
        return polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
