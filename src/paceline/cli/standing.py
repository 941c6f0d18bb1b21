"""A comparison while it goes on: one bar for the whole on a terminal, a line a run in a pipe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.cli.live import alerting, headline
from paceline.cli.tables import short, wide_console

if TYPE_CHECKING:
    from paceline.compare import Standing

_BAR_WIDTH = 32


@contextlib.contextmanager
def following() -> Iterator[Callable[[Standing], None]]:
    """Give a function to call with how the comparison stands."""
    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield _with_alerts(console, _Lines(console).show)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield _with_alerts(console, lambda standing: live.update(_panel(standing)))


def _with_alerts(console: Console, show: Callable[[Standing], None]) -> Callable[[Standing], None]:
    alert = alerting(console, lambda _: None)

    def show_all(standing: Standing) -> None:
        alert(standing.view)
        show(standing)

    return show_all


@contextlib.contextmanager
def preparing() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function to call while data is made, before there is anything to compare."""
    console = wide_console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda message, done, total: live.update(
            Text(f"{message} · {100 * done / max(1, total):.0f} %")
        )


class _Lines:
    """A line when a run begins."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = -1

    def show(self, standing: Standing) -> None:
        if standing.done != self._told:
            self._told = standing.done
            self._console.print(f"{_title(standing)}{_left(standing)}", markup=False)


def _panel(standing: Standing) -> Group:
    """Draw how far the whole is, and below it the run that goes on."""
    whole = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=standing.fraction, width=_BAR_WIDTH)
    whole.add_row(bar, f"{100 * standing.fraction:3.0f} %{_left(standing)}")
    return Group(whole, Text(_title(standing), style="bold"), Text(headline(standing.view)))


def _title(standing: Standing) -> str:
    spec = standing.spec
    workers = f"{spec.num_workers} worker{'s' if spec.num_workers > 1 else ''}"
    assert spec.optimizer is not None
    more = " or more" if standing.may_grow else ""
    parts = (
        f"run {min(standing.done + 1, standing.total)} of {standing.total}{more}",
        short(spec.workload.name),
        short(spec.strategy.name),
        f"{workers} x batch {spec.batch}",
        f"lr {spec.optimizer.lr:g}",
    )
    return " · ".join(parts)


def _left(standing: Standing) -> str:
    if standing.left_s is None:
        return ""
    minutes, seconds = divmod(round(standing.left_s), 60)
    least = "at least " if standing.may_grow else ""
    told = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
    return f" · {least}{told} left"
