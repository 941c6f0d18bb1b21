"""`paceline.report`: runs or a study, as one page and as files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from paceline.api.stored import Run
from paceline.errors import StoreError
from paceline.exhibits.pictures import Drawer
from paceline.outcome.results import Result
from paceline.store.runs import DEFAULT_OUT
from paceline.studies.finding import find, with_runs_of_studies

if TYPE_CHECKING:
    import polars

    from paceline.exhibits.values import Figure, Page
    from paceline.store.stored import StoredRun

REPORTS: Final = Path("reports")
RunLike = str | Path | Result | Run
"""A run by its folder, by part of its name, as `last`, or live; a folder of runs; a study."""


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class WrittenReport:
    """A report that is written: a page to open, and every figure and table as files."""

    path: Path
    """The page."""
    page: Page
    """What is on it: sections, tables, figures and claims."""
    left_out: tuple[str, ...] = ()
    """Why some of the runs that were asked for are not on it."""

    @property
    def conclusion(self) -> tuple[str, ...]:
        """What the runs show, in sentences, the most important first."""
        return self.page.conclusion

    def tables(self) -> dict[str, polars.DataFrame]:
        """Give the numbers of the tables, by their names."""
        return self.page.frames

    def figures(self) -> dict[str, Figure]:
        """Give the figures by their names; a notebook draws each."""
        return self.page.charts

    def __str__(self) -> str:
        return "\n".join([*self.conclusion, f"report: {self.path}"])

    def __repr__(self) -> str:
        return f"<WrittenReport {self.path}: {self.page.title}>"

    def _repr_html_(self) -> str:
        from paceline.reporting.brief import brief_html

        return brief_html(self.page)


def report(
    runs: RunLike | Sequence[RunLike],
    *,
    to: Path | str | None = None,
    title: str | None = None,
    out: Path | str = DEFAULT_OUT,
    run_code: bool = False,
) -> WrittenReport:
    """Write a report on runs that are kept, or on a study, and give what it says.

    `runs` are one or several: folders, parts of names looked for below `out`, `last`, results, or
    what `load` gives. The report goes to the folder `to`; without it, below `reports`, by the name
    of the run or folder. `title` is the page's. A study that names classes of somebody's own needs
    `run_code`, since they must be imported to find its runs.

    Raises `StoreError` where no run can be read, or nothing can be written.
    """
    kept = [runs] if isinstance(runs, str | Path | Result | Run) else runs
    wanted = [_named(each) for each in kept]
    folder, out = None if to is None else Path(to), Path(out)
    if len(wanted) == 1 and (study := find(wanted[0], out)) is not None:
        return _of_study(study, folder or study, title, run_code=run_code)
    with Drawer() as drawer:  # gets ready while the runs are read
        from paceline.reporting import page_of, write

        stored, problems = found(wanted, out)
        page = page_of(stored, title=title)
        path = write(page, folder or REPORTS / _name(wanted, stored), drawer)
    return WrittenReport(path=path, page=page, left_out=tuple(problems))


def _named(run: RunLike) -> str:
    if isinstance(run, Result):
        return run.run
    return str(run.path) if isinstance(run, Run) else str(run)


def _of_study(study: Path, to: Path, title: str | None, *, run_code: bool) -> WrittenReport:
    from paceline.reporting import write
    from paceline.studies.pages import page_again

    page = page_again(study, run_code=run_code)
    if title is not None:
        page = dataclasses.replace(page, title=title)
    return WrittenReport(path=write(page, to), page=page)


def found(wanted: list[str], out: Path) -> tuple[list[StoredRun], list[str]]:
    """Read the runs asked for; returns also why some cannot be read."""
    from paceline.store.stored import runs_of

    stored, problems = runs_of(with_runs_of_studies(wanted, out), out)
    if not stored:
        raise StoreError("\n".join(["none of the runs can be read", *problems]))
    return stored, problems


def _name(wanted: list[str], stored: list[StoredRun]) -> str:
    if len(stored) == 1:
        return stored[0].name
    if len(wanted) == 1:
        return Path(wanted[0]).resolve().name
    return f"{stored[0].name}-and-{len(stored) - 1}-more"
