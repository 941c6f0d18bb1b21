"""`paceline compare`: the same training under several strategies, a table and a conclusion."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paceline.cli.options import joined
from paceline.cli.report import REPORTS
from paceline.cli.run import interrupt_on, put, spec_options, value_of
from paceline.errors import Interrupted, Problem, RunError, SpecError, StoreError

if TYPE_CHECKING:
    from paceline.compare import Contest
    from paceline.exhibits import Page, Table
    from paceline.spec import RunSpec

HELP = """Train a WORKLOAD under several strategies and say which is best, and why.

Every side sees the same rows in the same order. Takes all options of `paceline run`. Ends in one \
table, a conclusion in words and a report to open.

Examples:

  paceline compare logistic-mnist --workers 3 --epochs 10 --target-accuracy 0.9

  paceline compare lenet-mnist --strategies ring,ps-sync --repeat 3 --lr-scaling linear

  paceline compare logistic-mnist --strategies ring --epochs 2 --vary batch=10,100,1000
"""

_COMPARING = "What is compared"
# Short names for what is varied most.
_ALIASES = {"lr": "optimizer.lr", "workers": "num_workers", "strategy": "strategy.name"}


def _compare(  # noqa: PLR0917 - each is an option on the command line
    table: dict[str, Any],
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="The strategies, in this order.",
            show_default="single,ps-async,ps-sync,ring",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            min=1,
            help="Run each side so many times, in turns: medians and spread.",
            rich_help_panel=_COMPARING,
        ),
    ] = 1,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=A,B,...",
            help="Compare several values of a field of the spec too, such as batch=1,100,1000.",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    lr_scaling: Annotated[
        Literal["none", "linear"] | None,
        typer.Option(
            help="linear: N workers get N times the learning rate.", rich_help_panel=_COMPARING
        ),
    ] = None,
    tune_lr: Annotated[
        bool,
        typer.Option(
            "--tune-lr",
            help="Try 0.3, 1, 3 and 10 times the learning rate; compare each side at its best.",
            rich_help_panel=_COMPARING,
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write the report; default: below reports/."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of all runs.")] = Path("runs"),
    json_: Annotated[
        bool, typer.Option("--json", help="Print all as one JSON object, last line.")
    ] = False,
) -> None:
    from paceline import compare
    from paceline.cli.standing import following, preparing
    from paceline.clusters.zygote import Zygote

    if lr_scaling is not None:
        put(table, "optimizer.lr_scaling", lr_scaling)
    varied = _varied(vary or [])
    with preparing() as progress:
        sides = compare.sides(table, _strategies(strategies, varied), varied, progress)
    if tune_lr:
        _check_tunable(sides)
    folder = to or REPORTS / _name(sides[0])
    _make(folder)
    total = len(sides) * (len(compare.GRID) + repeat - 1 if tune_lr else repeat)
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with following() as watch, Zygote() as zygote:
        contest = compare.Contest(total=total, out=out, watch=watch, zygote=zygote)
        if tune_lr:
            chosen = _tune(contest, sides)
            contest.run(chosen, repeat - 1)
        else:
            chosen = sides
            contest.run(chosen, repeat)
    page = _page(contest, chosen, tuned=tune_lr)
    path = _write(page, folder)
    _print(page, path)
    if json_:
        _print_json(contest, page, path)
    _end(contest)


compare = joined(spec_options, _compare, without=("strategy",))


def _check_tunable(sides: list[RunSpec]) -> None:
    devices = dict.fromkeys(side.device for side in sides if side.is_replayed)
    if devices:
        reason = "nothing is learnt on a replayed device, so no learning rate is best"
        raise SpecError([Problem("--tune-lr", ", ".join(devices), reason)])


def _make(folder: Path) -> None:
    """Make the report's folder first: that it cannot be written must not come after hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"no report can be written in {folder}: {reason}") from error


def _strategies(given: str | None, varied: dict[str, list[object]]) -> list[str]:
    """Give the strategies to compare; `--vary strategy=A,B` is another way to say them.

    What is varied beside them stays in `varied`.
    """
    from paceline.compare import DEFAULT_STRATEGIES

    names = varied.pop(_ALIASES["strategy"], None)
    if names is None:
        told = ",".join(DEFAULT_STRATEGIES) if given is None else given
        return [each.strip() for each in told.split(",") if each.strip()]
    listed = ",".join(map(str, names))
    if given is not None:
        reason = f"--strategies {given} is given too: name all strategies in one of them"
        raise SpecError([Problem("--vary", f"strategy={listed}", reason)])
    return [str(each) for each in names]


def _varied(settings: list[str]) -> dict[str, list[object]]:
    """Read `batch=1,100,1000` as a field and its values."""
    varied: dict[str, list[object]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        values = [value_of(each.strip()) for each in text.split(",") if each.strip()]
        if not (equals and key.strip() and values):
            raise SpecError([Problem("--vary", setting, "not of the form FIELD=A,B,...")])
        varied[_ALIASES.get(key.strip(), key.strip())] = values
    return varied


def _tune(contest: Contest, sides: list[RunSpec]) -> list[RunSpec]:
    """Run every side with every learning rate of the grid; returns each at its best.

    A side of which no run learnt anything stands at the rate that was asked for.
    """
    from paceline.compare import GRID, best_tuned, tunings

    grid = {number: tunings(side) for number, side in enumerate(sides)}
    contest.run([spec for turn in zip(*grid.values(), strict=True) for spec in turn])
    chosen = []
    for tried in grid.values():
        best = best_tuned([(spec, result) for spec, result in contest.results if spec in tried])
        chosen.append(best or tried[GRID.index(1.0)])
    return chosen


def _page(contest: Contest, chosen: list[RunSpec], *, tuned: bool) -> Page:
    """Make the page of the sides that are compared; what else was tried is told beside."""
    from paceline.report import page_of
    from paceline.runs import RunDir
    from paceline.stored import StoredRun

    kept = [
        StoredRun(RunDir(Path(result.run)), result)
        for spec, result in contest.results
        if spec in chosen or any(spec == failed for failed, _ in contest.failures)
    ]
    if not kept:
        if contest.interrupted:
            raise Interrupted("stopped by the user before any run was finished")
        raise RunError("; ".join(dict.fromkeys(reason for _, reason in contest.failures)))
    beside = [_tried(contest, chosen)] if tuned else []
    notes = _notes(contest, chosen, tuned=tuned)
    return page_of(kept, notes=notes, beside=beside)


def _notes(contest: Contest, chosen: list[RunSpec], *, tuned: bool) -> list[str]:
    seeds = sorted({each.seed for each in chosen})
    if len(seeds) == 1:
        same = f"All sides see the same rows in the same order (seed {seeds[0]})"
        notes = [f"{same} and start from the same parameters. They ran in turns."]
    else:
        told = ", ".join(map(str, seeds))
        notes = [f"Rows and first parameters are drawn by seeds {told}. The sides ran in turns."]
    notes.append(_TUNED if tuned else _rate_note(chosen))
    if contest.interrupted:
        missing = contest.total - len(contest.results)
        notes.append(f"Stopped by the user: {missing} of {contest.total} runs were not made.")
    return notes


_TUNED = (
    "The learning rate was tuned: each side stands at the best of the grid below, by the time to "
    "the target, or without one by the loss on the test rows."
)


def _rate_note(chosen: list[RunSpec]) -> str:
    """Say which learning rate was used: one for all favours some."""
    optimizers = [each.optimizer for each in chosen if each.optimizer is not None]
    rates = sorted({each.lr for each in optimizers})
    scalings = sorted({each.lr_scaling for each in optimizers})
    told = ", ".join(f"{each:g}" for each in rates)
    if scalings == ["linear"]:
        return f"The learning rate is {told} times the number of workers (--lr-scaling linear)."
    if scalings == ["none"] and len(rates) == 1:
        return (
            f"One learning rate for all, {told} (--lr-scaling none). "
            "Strategies that work in step see N times the batch, and make fewer updates."
        )
    return f"Learning rates {told}, scaled with the workers: {', '.join(scalings)}, side by side."


def _tried(contest: Contest, chosen: list[RunSpec]) -> Table:
    """What every learning rate of the grid gave."""
    from paceline.exhibits import Column, table_of

    rows = []
    for spec, result in contest.results:
        assert spec.optimizer is not None
        rows.append(
            {
                "side": f"{spec.strategy.name}, {result.num_workers} x {result.batch_size}",
                "lr": spec.optimizer.lr,
                "seconds": result.seconds_to_target,
                "loss": result.final_loss if result.test_loss is None else result.test_loss,
                "accuracy": result.test_accuracy,
                "chosen": "yes" if spec in chosen else "",
            }
        )
    columns = [
        Column(name="side", label="strategy, workers x batch"),
        Column(name="lr", label="learning rate", form="g"),
        Column(name="seconds", label="to the target", unit="s", form=".2f"),
        Column(name="loss", label="test loss", form=".4f"),
        Column(name="accuracy", label="accuracy", unit="%", form=".2f", scale=100),
        Column(name="chosen", label="chosen"),
    ]
    rows.sort(key=lambda row: str(row["side"]))
    return table_of("learning-rates", "Learning rates tried", rows, columns)


def _write(page: Page, folder: Path) -> Path:
    from paceline.report import write

    return write(page, folder)


def _name(spec: RunSpec) -> str:
    from paceline.cli.tables import short

    workload = short(spec.workload.name).rpartition(":")[2]
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{workload}"


def _print(page: Page, path: Path) -> None:
    from rich.markup import escape

    from paceline.cli.tables import exhibit_table, wide_console

    console = wide_console()
    (table,) = (each for each in page.tables if each.name == "comparison")
    console.print(exhibit_table(table))
    console.print()
    first, *others = page.conclusion
    console.print(f"[bold]{escape(first)}[/]")
    for sentence in others:
        console.print(escape(sentence))
    console.print(f"\nreport: {escape(str(path))}", soft_wrap=True)


def _print_json(contest: Contest, page: Page, path: Path) -> None:
    told = {
        "report": str(path),
        "conclusion": list(page.conclusion),
        "ranking": list(page.ranking),
        "interrupted": contest.interrupted,
        "runs": [result.table() for _, result in contest.results],
    }
    print(json.dumps(told))  # noqa: T201
    sys.stdout.flush()


def _end(contest: Contest) -> None:
    """An interrupt and a failure are told by the exit code too."""
    if contest.interrupted:
        raise Interrupted("stopped by the user; what is finished is in the report")
    if contest.failures:
        raise typer.Exit(1)
