"""`paceline doctor`: what this machine can do, and what to do where it cannot."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from paceline.cli.layout import TextGrid
    from paceline.measure.machine import Finding

# Words, not signs: they survive a pipe, a log and a terminal without Unicode.
MARKS = {True: ("ok", "green"), None: ("-", "dim"), False: ("no", "yellow")}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Show what a Ray cluster offers instead: auto, HOST:6379 or ray://HOST:10001.",
        ),
    ] = None,
) -> None:
    """Examine this machine: what works, what does not, and what to do about it.

    Ends with code 1 only if something is missing without which nothing runs.
    """
    if ray is not None:
        from paceline.cli.ray_offers import show_offers

        show_offers(ray, as_json=json)
        return
    from paceline.display.consoles import wide_console
    from paceline.measure.machine import examine, missing_required

    findings = examine()
    missing = missing_required(findings)
    if json:
        typer.echo(dumps({"ok": not missing, "findings": [asdict(each) for each in findings]}))
    else:
        wide_console().print(_table(findings))
    if missing:
        raise typer.Exit(1)


def _table(findings: list[Finding]) -> TextGrid:
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, words

    table = listing(Head(""), Head("what"), words("found"), words("what to do", rank=1))
    for finding in findings:
        table.add_row(_mark(finding), finding.name, finding.value, finding.remedy)
    return table


def _mark(finding: Finding) -> Text:
    from rich.text import Text

    from paceline.measure.machine import REQUIRED

    if not finding.ok and finding.name in REQUIRED:
        return Text("REQUIRED", style="bold red")
    word, style = MARKS[finding.ok]
    return Text(word, style=style)
