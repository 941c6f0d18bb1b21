"""A comparison while it goes on: one bar for the whole on a terminal, a line per run in a pipe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.comparing.audience import Audience
from paceline.comparing.contest import ContestStanding
from paceline.display.consoles import short, text_of_left, wide_console
from paceline.display.live import alerting, headline, warn_on

_BAR_WIDTH = 32


@contextlib.contextmanager
def following() -> Iterator[Audience]:
    """Give whom a comparison tells how it stands; shown on standard error."""
    console = wide_console(stderr=True)
    say = _saying(console)
    if not console.is_terminal:
        lines = _Lines(console)
        yield Audience(say=say, watch=with_alerts(warn_on(console), lines.show))
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield Audience(
            prepare=lambda *told: live.update(Text(prepared(*told))),
            say=say,
            watch=with_alerts(warn_on(console), lambda standing: live.update(_panel(standing))),
        )


def _saying(console: Console) -> Callable[[Sequence[str]], None]:
    def say(sentences: Sequence[str]) -> None:
        for sentence in sentences:
            console.print(sentence, markup=False, highlight=False)

    return say


def with_alerts(
    warn: Callable[[str], None], show: Callable[[ContestStanding], None]
) -> Callable[[ContestStanding], None]:
    """Show a standing, and before it what is urgent in its run, each once."""
    alert = alerting(warn, lambda _: None)

    def show_all(standing: ContestStanding) -> None:
        alert(standing.view)
        show(standing)

    return show_all


def prepared(message: str, done: int, total: int) -> str:
    """Say how far data is that is made before there is anything to compare."""
    return f"{message} · {100 * done / max(1, total):.0f} %"


class _Lines:
    """A line when a run begins."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = -1

    def show(self, standing: ContestStanding) -> None:
        if standing.done != self._told:
            self._told = standing.done
            self._console.print(f"{title_of(standing)}{_left(standing)}", markup=False)


def _panel(standing: ContestStanding) -> Group:
    """Draw how far the whole is, and below it the run that goes on."""
    whole = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=standing.fraction, width=_BAR_WIDTH)
    whole.add_row(bar, f"{100 * standing.fraction:3.0f} %{_left(standing)}")
    return Group(whole, Text(title_of(standing), style="bold"), Text(headline(standing.view)))


def title_of(standing: ContestStanding) -> str:
    """Say which run of the comparison goes on."""
    spec = standing.spec
    workers = f"{spec.num_workers} worker{'s' if spec.num_workers > 1 else ''}"
    own = spec.optimizer is None  # a script's batch and learning rate
    more = " or more" if standing.may_grow else ""
    parts = (
        f"run {min(standing.done + 1, standing.total)} of {standing.total}{more}",
        short(spec.workload.name),
        short(spec.strategy.name),
        workers if own else f"{workers} x batch {spec.batch}",
        *(() if spec.optimizer is None else (f"lr {spec.optimizer.lr:g}",)),
    )
    return " · ".join(parts)


def _left(standing: ContestStanding) -> str:
    return text_of_left(standing.left_s, at_least=standing.may_grow)
