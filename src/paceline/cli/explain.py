"""`paceline explain`: where a run's time went, how full things were, and what to try next."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from paceline.cli.stored import AsJson, Out, result_of
from paceline.errors import StoreError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from paceline.results import Result, WorkerTotals
    from paceline.verdict.parts import Parts
    from paceline.verdict.resources import Resource

# Letter and colour of each part: a bar must be readable without colours too.
_PARTS: Final = {
    "load_s": ("L", "cyan", "load"),
    "compute_s": ("C", "green", "compute"),
    "wait_s": (".", "bright_black", "wait for the slowest"),
    "transfer_s": ("=", "magenta", "send and receive"),
    "queue_s": ("Q", "red", "queue at a server"),
    "apply_s": ("A", "blue", "apply"),
    "other_s": ("o", "white", "other"),
}
_BAR: Final = 48
_GAUGE: Final = 30
_MOST_OPERATORS: Final = 12


def explain(
    run: Annotated[str, typer.Argument(help="A run's folder, part of its name, or `last`.")],
    out: Out = Path("runs"),
    json_: AsJson = False,
) -> None:
    """Say what limited a run: each worker's step in parts, utilisation, what to try next."""
    from paceline.cli.tables import making_sense, wide_console
    from paceline.runs import find_run

    found = find_run(run, out)
    result = result_of(found)
    if result is None or isinstance(result, str):
        raise StoreError(f"{found.path}: {result or 'still running; wait until it is over'}")
    with making_sense(found.path):
        if json_:
            print(json.dumps(_table(result)))  # noqa: T201
        else:
            _print(result, found.read_operators("worker0"), wide_console())


def _table(result: Result) -> dict[str, Any]:
    """All of it as plain values."""
    from paceline.verdict import all_parts, judge, suggestions_for
    from paceline.verdict.resources import resources_of

    verdict = judge(result)
    return {
        "run": result.run,
        "verdict": None if verdict is None else dataclasses.asdict(verdict),
        "parts": {name: dataclasses.asdict(each) for name, each in all_parts(result).items()},
        "resources": [dataclasses.asdict(each) for each in resources_of(result)],
        "suggestions": [dataclasses.asdict(each) for each in suggestions_for(result)],
    }


def _print(result: Result, operators: list[dict[str, Any]], console: Console) -> None:
    from rich.markup import escape

    from paceline.cli.tables import short, with_origin
    from paceline.verdict import all_parts, judge, suggestions_for
    from paceline.verdict.resources import resources_of

    workload = with_origin(short(result.workload), result.data)
    title = " · ".join((workload, short(result.strategy), short(result.cluster)))
    console.print(f"[bold]{escape(title)}[/] ({escape(result.meaning)}; batch {result.batch_size})")
    if result.status != "finished":
        console.print(f"[red]{result.status}[/]: {escape(str(result.reason))}")
    parts = all_parts(result)
    if parts:
        console.print("\n[bold]A step of each worker[/]")
        console.print(_steps(result, parts))
        console.print(_legend(parts, console.width))
        console.print(_shares(result, parts))
    if operators:
        console.print("\n[bold]Operators of worker0, by time[/]")
        console.print(_operators(operators))
    resources = resources_of(result)
    if resources:
        console.print("\n[bold]Utilisation[/]")
        console.print(_gauges(resources))
    verdict = judge(result)
    console.print("\n[bold]Verdict[/]")
    console.print(escape(verdict.sentence if verdict else _why_none(result)))
    tips = suggestions_for(result)
    if tips:
        console.print("\n[bold]What to try next[/]")
        for tip in tips:
            console.print(f"{tip.gain:4.2f} x  {escape(tip.advice)}")
    elif verdict and verdict.suggestion:
        console.print(f"\n[bold]What to try next[/]\n{escape(verdict.suggestion)}")


def _why_none(result: Result) -> str:
    if result.status != "finished":
        return "none: the run did not finish"
    steps = min((each.worker_steps for each in result.workers), default=0)
    if any(each.compute_s is None for each in result.workers) and steps:
        return "none: the run recorded no rows (record.steps=false), so where time went is unknown"
    return f"none: {steps} steps per worker are too few for a verdict"


def _steps(result: Result, parts: dict[str, Parts]) -> RenderableType:
    """One bar a worker, as long as its step is against the longest of all."""
    from rich.text import Text

    from paceline.cli.tables import plain_table

    steps = {worker.name: max(1, worker.worker_steps) for worker in result.workers}
    longest_s = max(each.total_s / steps[name] for name, each in parts.items())
    table = plain_table("", "", ">")
    for name, each in parts.items():
        step_s = each.total_s / steps[name]
        bar = Text()
        width = _BAR * step_s / longest_s
        for part, count in _cells(each, round(width)).items():
            letter, colour, _ = _PARTS[part]
            bar.append(letter * count, style=colour)
        table.add_row(name, bar, f"{1e3 * step_s:,.2f} ms")
    return table


def _cells(parts: Parts, width: int) -> dict[str, int]:
    """Share a bar's cells among the parts, so that rounding loses none."""
    ends, passed_s = [], 0.0
    for part in _PARTS:
        passed_s += getattr(parts, part)
        ends.append(round(width * passed_s / parts.total_s))
    starts = [0, *ends[:-1]]
    return dict(
        zip(_PARTS, (end - start for start, end in zip(starts, ends, strict=True)), strict=True)
    )


def _legend(parts: dict[str, Parts], room: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from paceline.cli.layout import packed

    legend = [
        Text(letter, style=colour).append(f" {name}", style="default")
        for part, (letter, colour, name) in _PARTS.items()
        if any(getattr(each, part) > 0.005 * each.total_s for each in parts.values())
    ]
    return Group(*packed(legend, "  ", room))


def _shares(result: Result, parts: dict[str, Parts]) -> RenderableType:
    from paceline.cli.tables import plain_table

    heads = [part.removesuffix("_s") for part in _PARTS]
    table = plain_table("% of a step", *(f"{head}>" for head in heads), "hidden>")
    workers = {worker.name: worker for worker in result.workers}
    for name, each in parts.items():
        shares = [f"{100 * each.share(getattr(each, part)):.1f}" for part in _PARTS]
        table.add_row(name, *shares, _hidden(workers[name], each))
    return table


def _hidden(worker: WorkerTotals, parts: Parts) -> str:
    """What of the exchange went on while it computed."""
    return "-" if worker.hidden_s is None else f"{100 * parts.share(worker.hidden_s):.1f}"


def _operators(rows: list[dict[str, Any]]) -> RenderableType:
    """What took longest of the steps that were profiled."""
    from paceline.cli.tables import plain_table

    table = plain_table("operator", "output", "size>", "calls/step>", "ms/step>")
    for row in rows[:_MOST_OPERATORS]:
        shape, num_bytes = row.get("output_shape"), row.get("output_bytes")
        table.add_row(
            row["operator"].removeprefix("aten::"),
            "-" if shape is None else "x".join(map(str, shape)) or "one number",
            "-" if num_bytes is None else f"{num_bytes / 1e3:,.1f} kB",
            f"{row.get('calls_per_step', 1):g}",
            f"{row['ms_per_step']:.3f}",
        )
    return table


def _gauges(resources: list[Resource]) -> RenderableType:
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, words

    table = listing(Head(""), Head(""), words(""))
    for each in resources:
        used = min(1.0, each.used or 0.0)
        bar = "" if each.used is None else f"[{'#' * round(_GAUGE * used):<{_GAUGE}}]"
        table.add_row(each.label, bar, each.text)
    return table
