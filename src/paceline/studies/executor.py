"""Carries out what of a study is not finished yet, and says how long that will take.

A run counts if it is sealed and finished, and is known by its spec. So a study that was stopped,
however that happened, goes on where it was, and no run is carried out twice.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from paceline.clusters.zygote import Zygote
from paceline.engine import driver
from paceline.engine.progress import RunView
from paceline.errors import DataError, Interrupted, NotHere, RunError, SpecError
from paceline.outcome.results import Result
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence
from paceline.studies.folder import Contents, StudyDir, seconds_of
from paceline.studies.grid import PlannedRun
from paceline.studies.here import SettledRun, settle_by


@final
@dataclass(frozen=True, kw_only=True)
class StudyStanding:
    """How a study stands while it is carried out."""

    num_done: int
    num_all: int
    name: str
    """The run that is being carried out, or was last."""
    view: RunView | None = None
    """How that run stands, while it goes on."""
    result: Result | None = None
    """What came of it, when it is over."""
    failure: str | None = None
    left_s: float | None = None
    """For the whole study, judged by the runs that are finished; None while none is."""


WatchStudy = Callable[[StudyStanding], None]


def carry_out(
    runs: Sequence[SettledRun],
    folder: StudyDir,
    watch: WatchStudy | None = None,
    *,
    begin: Callable[[], None] = lambda: None,
) -> Evidence:
    """Carry out every run that is not finished; returns all that are.

    `begin` is called once no other process may write to the folder. A run that fails is noted, and
    the others go on. Raises `Interrupted` when it is stopped, and `StoreError` when nothing can be
    written.
    """
    with folder.held(), Zygote() as zygote:
        begin()
        course = _Course(runs, folder, folder.contents(), watch or (lambda _: None))
        for each in runs:
            course.carry_out(each, zygote)
        return course.evidence()


def gathered(plans: Sequence[PlannedRun], folder: StudyDir) -> Evidence:
    """Give what is finished already, and start nothing."""
    contents = folder.contents()
    runs = settle_by(plans, contents.finished)
    return _Course(runs, folder, contents, lambda _: None).evidence()


@final
class _Course:
    """What is finished, what failed, and how long it took."""

    def __init__(
        self, runs: Sequence[SettledRun], folder: StudyDir, contents: Contents, watch: WatchStudy
    ) -> None:
        self._runs = runs
        self._folder = folder
        self._watch = watch
        self._groups = {each.key: each.planned.group for each in runs if each.key}
        self._contents = contents
        self._finished = self._contents.finished
        self._num_possible = sum(each.spec is not None for each in runs)
        self._failed = {each.planned.name: each.problem for each in runs if each.spec is None}
        self._seconds = {
            key: seconds_of(run.folder)
            for key, run in self._finished.items()
            if key in self._groups
        }

    def carry_out(self, run: SettledRun, zygote: Zygote) -> None:
        if run.spec is None or run.key is None or run.key in self._finished:
            return
        self._contents.clear_unfinished(run.key)
        name = run.planned.name
        self._tell(run)
        result = failure = None
        try:
            result = driver.run(
                run.spec,
                out=self._folder.runs,
                watch=lambda view: self._tell(run, view),
                zygote=zygote,
            )
        except Interrupted:
            raise
        except (RunError, SpecError, DataError, NotHere) as error:
            failure = self._failed[name] = str(error)
        else:
            stored = self._finished[run.key] = StoredRun.read(RunDir(Path(result.run)))
            self._seconds[run.key] = seconds_of(stored.folder)
        self._tell(run, result=result, failure=failure)

    def evidence(self) -> Evidence:
        by_name = {each.planned.name: self._finished.get(each.key or "") for each in self._runs}
        return Evidence(
            plans=[each.planned for each in self._runs],
            runs={name: run for name, run in by_name.items() if run is not None},
            missing=self._failed_before() | self._failed,
            notes=tuple(dict.fromkeys(each.note for each in self._runs if each.note)),
        )

    def _failed_before(self) -> dict[str, str]:
        """Say why runs failed that an earlier process carried out, and this one has not yet."""
        left = [(each, each.key) for each in self._runs if each.key not in self._finished]
        found = {each.planned.name: self._contents.failure(key) for each, key in left if key}
        return {name: reason for name, reason in found.items() if reason}

    def _tell(
        self,
        run: SettledRun,
        view: RunView | None = None,
        result: Result | None = None,
        failure: str | None = None,
    ) -> None:
        todo = self._todo()
        self._watch(
            StudyStanding(
                num_done=self._num_possible - len(todo),
                num_all=self._num_possible,
                name=run.planned.name,
                view=view,
                result=result,
                failure=failure,
                left_s=self._left_s(todo, view),
            )
        )

    def _todo(self) -> list[SettledRun]:
        return [
            each
            for each in self._runs
            if each.key not in self._finished and each.planned.name not in self._failed
        ]

    def _left_s(self, todo: Iterable[SettledRun], view: RunView | None) -> float | None:
        """Expect of a run what others of its group took, or all where none has finished."""
        by_group: dict[str, list[float]] = {}
        for key, seconds in self._seconds.items():
            by_group.setdefault(self._groups[key], []).append(seconds)
        if not by_group:
            return None
        overall = list(self._seconds.values())
        waits = {
            each.key: statistics.fmean(by_group.get(each.planned.group, overall)) for each in todo
        }
        if waits and view is not None and view.fraction is not None:
            waits[next(iter(waits))] *= 1 - view.fraction
        return sum(waits.values())
