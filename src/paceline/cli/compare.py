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
from paceline.errors import Interrupted, Problem, SpecError, StoreError

if TYPE_CHECKING:
    from paceline.compare import Contest, Repeats
    from paceline.exhibits import Page
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
        int | None,
        typer.Option(
            min=1,
            help="Run each side exactly this many times, in turns.",
            show_default="until the spread is known",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Without --repeat: start no round that would end after this many seconds.",
            show_default="180",
            rich_help_panel=_COMPARING,
        ),
    ] = None,
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
        bool, typer.Option("--json", help="Print everything as one JSON object, on the last line.")
    ] = False,
) -> None:
    from paceline import compare
    from paceline.cli.standing import following, preparing
    from paceline.clusters.zygote import Zygote

    if lr_scaling is not None:
        put(table, "optimizer.lr_scaling", lr_scaling)
    varied = _varied(vary or [])
    repeats = _repeats(repeat, budget)
    with preparing() as progress:
        sides = compare.sides(table, _strategies(strategies, varied), varied, progress)
    if tune_lr:
        compare.check_tunable(sides)
    folder = to or REPORTS / _name(sides[0])
    _make(folder)
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with Zygote() as zygote:
        sides, said = compare.with_same_threads(sides, zygote)
        _tell([*said, repeats.sentence(len(sides))])
        with following() as watch:
            contest = compare.Contest(out=out, watch=watch, zygote=zygote)
            done = compare.carry_out(contest, sides, repeats, tune_lr=tune_lr, notes=said)
    path = _write(done.page, folder)
    _print(done.page, path)
    if json_:
        _print_json(contest, done.page, path)
    _end(contest)


compare = joined(spec_options, _compare, without=("strategy",))


def _repeats(repeat: int | None, budget: float | None) -> Repeats:
    from paceline.compare import BUDGET_S, Repeats

    if repeat is not None and budget is not None:
        reason = f"not with --repeat {repeat}, which sets the exact number"
        raise SpecError([Problem("--budget", budget, reason)])
    return Repeats(number=repeat, budget_s=BUDGET_S if budget is None else budget)


def _tell(sentences: list[str]) -> None:
    """Say before anything starts how the runs are made."""
    from paceline.cli.tables import wide_console

    console = wide_console(stderr=True)
    for sentence in sentences:
        console.print(sentence, markup=False, highlight=False)


def _make(folder: Path) -> None:
    """Make the report's folder first: that it cannot be written must not come after hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write a report to {folder}: {reason}") from error


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
        raise Interrupted("stopped by the user; finished runs are in the report")
    if contest.failures:
        raise typer.Exit(1)
