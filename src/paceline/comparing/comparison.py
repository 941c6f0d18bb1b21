"""A whole comparison: its runs, and the page that says what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from paceline.comparing.contest import Contest, Repeats
from paceline.comparing.specs import GRID, best_tuned, tunings
from paceline.errors import Interrupted, RunError
from paceline.exhibits.values import Column, Figure, Page, Table, table_of
from paceline.outcome.results import Result
from paceline.reporting import page_of, write
from paceline.reporting.brief import brief_html
from paceline.reporting.metric_columns import metric_columns
from paceline.spec import RunSpec

if TYPE_CHECKING:
    import polars


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """What came of a comparison."""

    chosen: list[RunSpec]
    """The sides that are compared; where the learning rate was tuned, each at its best."""
    page: Page
    """What they show: `conclusion` in words, `ranking` for programs, tables and figures."""
    runs: list[Result]
    """The result of every run that was made, in the order in which they were."""
    failures: list[tuple[RunSpec, str]]
    """What failed, and why; the others went on."""
    interrupted: bool
    """Whether it was stopped; then it tells of what was finished."""
    report: Path | None = None
    """The page as a file, where one was written."""

    @property
    def conclusion(self) -> tuple[str, ...]:
        """What the runs show, in sentences, the most important first."""
        return self.page.conclusion

    @property
    def ranking(self) -> tuple[Mapping[str, Any], ...]:
        """What the sentences rest on, side by side, for programs."""
        return self.page.ranking

    def frame(self) -> polars.DataFrame:
        """Give the table of all sides, as the command line prints it."""
        return self.page.frames["comparison"]

    def figures(self) -> dict[str, Figure]:
        """Give the figures of the page by their names; a notebook draws each."""
        return self.page.charts

    def table(self) -> dict[str, Any]:
        """Give all of it as plain values: what `paceline compare --json` prints."""
        return {
            "report": None if self.report is None else str(self.report),
            "conclusion": list(self.conclusion),
            "ranking": list(self.ranking),
            "interrupted": self.interrupted,
            "runs": [result.table() for result in self.runs],
        }

    def write(self, folder: Path | str) -> Path:
        """Write the report: one page, and every figure and table as files. Returns the page."""
        return write(self.page, Path(folder))

    def __str__(self) -> str:
        return "\n".join(self.conclusion)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.chosen)} sides: {self.conclusion[0]}>"

    def _repr_html_(self) -> str:
        return brief_html(self.page)


def carry_out(
    contest: Contest,
    sides: Sequence[RunSpec],
    repeats: Repeats | None = None,
    *,
    tune_lr: bool = False,
    notes: Sequence[str] = (),
) -> Comparison:
    """Run all sides in turns and say what they show; `notes` stand on the page.

    Raises `Interrupted` or `RunError` if there is nothing to show.
    """
    repeats = repeats or Repeats()
    per_side = repeats.least + (len(GRID) - 1 if tune_lr else 0)
    contest.total = len(sides) * per_side
    chosen = _tune(contest, sides) if tune_lr else list(sides)
    made = 1 if tune_lr else 0
    if repeats.number is None:
        contest.run_until_known(chosen, repeats.budget_s, made)
    else:
        contest.run(chosen, repeats.number - made)
    return Comparison(
        chosen=chosen,
        page=_page(contest, chosen, notes, tuned=tune_lr),
        runs=[result for _, result in contest.results],
        failures=list(contest.failures),
        interrupted=contest.interrupted,
    )


def _tune(contest: Contest, sides: Sequence[RunSpec]) -> list[RunSpec]:
    """Run every side with every learning rate of the grid; returns each at its best.

    A side of which no run learnt anything stands at the rate that was asked for.
    """
    grid = {number: tunings(side) for number, side in enumerate(sides)}
    contest.run([spec for turn in zip(*grid.values(), strict=True) for spec in turn])
    chosen = []
    for tried in grid.values():
        best = best_tuned([(spec, result) for spec, result in contest.results if spec in tried])
        chosen.append(best or tried[GRID.index(1.0)])
    return chosen


def _page(contest: Contest, chosen: list[RunSpec], notes: Sequence[str], *, tuned: bool) -> Page:
    """Make the page of the sides that are compared; what else was tried is told beside."""
    failed = [spec for spec, _ in contest.failures]
    kept = contest.stored([*chosen, *failed])
    if not kept:
        if contest.interrupted:
            raise Interrupted("stopped by the user before any run was finished")
        raise RunError("; ".join(dict.fromkeys(reason for _, reason in contest.failures)))
    beside = [_tried(contest, chosen)] if tuned else []
    return page_of(kept, notes=[*_notes(contest, chosen, tuned=tuned), *notes], beside=beside)


def _notes(contest: Contest, chosen: list[RunSpec], *, tuned: bool) -> list[str]:
    seeds = sorted({each.seed for each in chosen})
    if len(seeds) == 1:
        same = f"All sides see the same rows in the same order (seed {seeds[0]})"
        notes = [f"{same} and start from the same parameters. They ran in turns."]
    else:
        told = ", ".join(map(str, seeds))
        notes = [
            f"Row order and initial parameters are drawn with seeds {told}. The sides ran in turns."
        ]
    notes.append(_TUNED if tuned else _rate_note(chosen))
    if contest.interrupted:
        missing = contest.total - contest.num_made
        notes.append(f"Stopped by the user: {missing} of {contest.total} runs were not made.")
    return notes


_TUNED = (
    "The learning rate was tuned: each side uses the best of the grid below, by time "
    "to the target or, without a target, by test loss."
)


def _rate_note(chosen: list[RunSpec]) -> str:
    """Say which learning rate was used: one for all favours some."""
    optimizers = [each.optimizer for each in chosen if each.optimizer is not None]
    if not optimizers:
        return "Every side runs the script with the same arguments, so with one learning rate."
    rates = sorted({each.lr for each in optimizers})
    scalings = sorted({each.lr_scaling for each in optimizers})
    told = ", ".join(f"{each:g}" for each in rates)
    if scalings == ["linear"]:
        return f"The learning rate is {told} times the number of workers (--lr-scaling linear)."
    if scalings == ["none"] and len(rates) == 1:
        return (
            f"One learning rate for all, {told} (--lr-scaling none). "
            "Synchronous strategies see N times the batch and make fewer updates."
        )
    return f"Learning rates {told}, scaled with the workers: {', '.join(scalings)}, side by side."


def _tried(contest: Contest, chosen: list[RunSpec]) -> Table:
    """What every learning rate of the grid gave."""
    tested = metric_columns(
        (result.test_metrics for _, result in contest.results), without=("loss",)
    )
    rows = []
    for spec, result in contest.results:
        assert spec.optimizer is not None
        rows.append(
            {
                "side": f"{spec.strategy.name}, {result.num_workers} x {result.batch_size}",
                "lr": spec.optimizer.lr,
                "seconds": result.seconds_to_target,
                "loss": result.final_loss if result.test_loss is None else result.test_loss,
                **{each.name: result.test_metrics.get(name) for name, each in tested.items()},
                "chosen": "yes" if spec in chosen else "",
            }
        )
    columns = [
        Column(name="side", label="strategy, workers x batch"),
        Column(name="lr", label="learning rate", form="g"),
        Column(name="seconds", label="to the target", unit="s", form=".2f"),
        Column(name="loss", label="test loss", form=".4f"),
        *tested.values(),
        Column(name="chosen", label="chosen"),
    ]
    rows.sort(key=lambda row: str(row["side"]))
    return table_of("learning-rates", "Learning rates tried", rows, columns)
