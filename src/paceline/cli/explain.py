"""`paceline explain`: where a run's time went, how full things were, and what to try next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from paceline.cli.stored import AsJson, Out
from paceline.store.stored import making_sense

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from paceline.outcome.results import Result, WorkerTotals
    from paceline.verdict.explanation import Explanation
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
    from paceline.api.stored import load
    from paceline.display.consoles import wide_console

    found = load(run, out=out)
    explanation = found.explain()
    if json_:
        print(json.dumps(explanation.table()))  # noqa: T201
    else:
        with making_sense(found.path):
            _print(explanation, found.operators(), wide_console())


def _print(explained: Explanation, operators: list[dict[str, Any]], console: Console) -> None:
    from rich.markup import escape

    from paceline.cli.summary import cost_of_disturbances
    from paceline.display.consoles import short, with_origin
    from paceline.outcome.disturbed import sentence

    result, parts = explained.result, dict(explained.parts)
    workload = with_origin(short(result.workload), result.data)
    title = " · ".join((workload, short(result.strategy), short(result.cluster)))
    console.print(f"[bold]{escape(title)}[/] ({escape(result.meaning)}; batch {result.batch_size})")
    if result.status != "finished":
        console.print(f"[red]{result.status}[/]: {escape(str(result.reason))}")
    if result.disturbances:
        console.print("\n[bold]What disturbed it[/]")
        for each in result.disturbances:
            console.print(escape(sentence(each)))
        if result.goodput is not None:
            console.print(cost_of_disturbances(result))
    if parts:
        console.print("\n[bold]A step of each worker[/]")
        console.print(_steps(result, parts))
        console.print(_legend(parts, console.width))
        console.print(_shares(result, parts))
    if operators:
        console.print("\n[bold]Operators of worker0, by time[/]")
        console.print(_operators(operators))
    if explained.resources:
        console.print("\n[bold]Utilisation[/]")
        console.print(_gauges(explained.resources))
    console.print(f"\n[bold]Verdict[/]\n{escape(explained.sentence)}")
    if explained.advice:
        console.print("\n[bold]What to try next[/]")
        for tip in explained.advice:
            console.print(escape(tip))


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


def _gauges(resources: Sequence[Resource]) -> RenderableType:
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, words

    table = listing(Head(""), Head(""), words(""))
    for each in resources:
        used = min(1.0, each.used or 0.0)
        bar = "" if each.used is None else f"[{'#' * round(_GAUGE * used):<{_GAUGE}}]"
        table.add_row(each.label, bar, each.text)
    return table
