"""`paceline doctor`: what this machine can do, and what to do where it cannot."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from paceline.measure.machine import Finding

# Words, not signs: they survive a pipe, a log and a terminal without Unicode.
MARKS = {True: ("ok", "green"), None: ("-", "dim"), False: ("no", "yellow")}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Examine this machine: what works, what does not, and what to do about it.

    Ends with code 1 only if something is missing without which nothing runs.
    """
    from rich.console import Console

    from paceline.measure.machine import examine, missing_required

    findings = examine()
    missing = missing_required(findings)
    if json:
        typer.echo(dumps({"ok": not missing, "findings": [asdict(each) for each in findings]}))
    else:
        Console().print(_table(findings))
    if missing:
        raise typer.Exit(1)


def _table(findings: list[Finding]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("", "what", "found", "what to do", title="What this machine can do")
    for finding in findings:
        # Text, not str: a message such as "[Errno 1]" is no markup.
        texts = (finding.name, finding.value, finding.remedy)
        table.add_row(_mark(finding), *(Text(text) for text in texts))
    return table


def _mark(finding: Finding) -> Text:
    from rich.text import Text

    from paceline.measure.machine import REQUIRED

    if not finding.ok and finding.name in REQUIRED:
        return Text("REQUIRED", style="bold red")
    word, style = MARKS[finding.ok]
    return Text(word, style=style)
