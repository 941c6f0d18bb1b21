"""What an earlier attempt at a comparison left: runs of the same specs, finished or not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import final

from paceline.engine.origin import Origin
from paceline.errors import PacelineError
from paceline.spec import RunSpec
from paceline.store.runs import RunDir, all_runs
from paceline.store.stored import StoredRun


@final
class Earlier:
    """The runs below a folder, each of which is taken at most once.

    A run that another one went on from is not counted beside it. Runs that failed are left where
    they are, and so are those that stopped before their first checkpoint.
    """

    def __init__(self, out: Path) -> None:
        runs = [run for each in all_runs(out) if (run := _read(each)) is not None]
        parents = {run.result.parent for run in runs}
        self._left = [run for run in runs if run.name not in parents]

    def take(self, spec: RunSpec) -> StoredRun | Origin | None:
        """Give a finished run of a spec; else what one that was lost can go on from."""
        table = tomllib.loads(spec.toml())
        same = [run for run in self._left if run.spec == table]
        finished = [run for run in same if run.is_finished]
        if finished:
            self._left.remove(finished[0])
            return finished[0]
        return self._take_origin([run for run in same if run.result.status == "interrupted"])

    def _take_origin(self, runs: list[StoredRun]) -> Origin | None:
        for run in reversed(runs):
            self._left.remove(run)
            try:
                return Origin.of(run)
            except PacelineError:  # it has no whole checkpoint
                continue
        return None


def _read(folder: RunDir) -> StoredRun | None:
    try:
        return StoredRun.read(folder)
    except PacelineError:  # it still runs, or cannot be read
        return None
