"""A run while it goes on: a live panel on a terminal, plain lines in a pipe.

All of it goes to standard error, so that standard output holds only the result.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.cli.tables import rate, short, wide_console, with_origin
from paceline.results import label

if TYPE_CHECKING:
    from paceline.progress import View
    from paceline.spec import RunSpec

_LINE_EVERY_S: Final = 5.0
_BAR_WIDTH: Final = 24


@contextlib.contextmanager
def watching(spec: RunSpec) -> Iterator[Callable[[View], None]]:
    """Give a function to call with each view of the run."""
    console = wide_console(stderr=True)
    workload = with_origin(short(spec.workload.name), spec.workload.supply().data)
    title = " · ".join((workload, short(spec.strategy.name), short(spec.cluster.name)))
    if spec.num_workers > 1:
        title += f" · {spec.num_workers} workers"
    if spec.is_replayed:
        title += f" · {label('replayed', spec.device, spec.dilation)}"
    if console.is_terminal and not spec.cluster.shares_process:
        with Live(console=console, refresh_per_second=8, transient=True) as live:
            yield lambda view: live.update(panel(title, view))
    else:
        yield _Lines(console, title).show


class _Lines:
    """A line when the phase changes, and one every few seconds."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._last_phase = ""
        self._last_s = 0.0

    def show(self, view: View) -> None:
        now_s = time.monotonic()
        if view.phase == self._last_phase and now_s - self._last_s < _LINE_EVERY_S:
            return
        if not self._last_phase:
            self._console.print(self._title, markup=False)
        self._last_phase, self._last_s = view.phase, now_s
        self._console.print(f"  {headline(view)}", markup=False)


def panel(title: str, view: View) -> Group:
    """Draw the run: what, how far, how fast, and a line a node."""
    bar = ProgressBar(total=1.0, completed=view.fraction or 0.0, width=_BAR_WIDTH)
    top = Table.grid(padding=(0, 1))
    percent = "" if view.fraction is None else f"{100 * view.fraction:3.0f} %"
    top.add_row(Text(title, style="bold"), bar, percent)
    lines: list[Any] = [top, Text(f"  {headline(view)}")]
    lines += [Text(f"  {node_line(name, usage)}") for name, usage in view.nodes.items()]
    return Group(*lines)


def headline(view: View) -> str:
    """Say in one line how the run stands."""
    if view.phase == "preparing":
        done = "" if view.fraction is None else f": {100 * view.fraction:.0f} %"
        return f"{view.note}{done}"
    if view.phase == "starting":
        return "starting"
    parts = [view.phase, f"{view.time_s:.1f} s"]
    steps = view.worker_steps if view.global_steps is None else view.global_steps
    parts.append(f"step {steps:,}")
    if view.steps_per_s:
        parts.append(f"{rate(view.steps_per_s)} steps/s")
    if view.loss is not None:
        parts.append(f"loss {view.loss:.4f}")
    if view.accuracy is not None:
        parts.append(f"accuracy {100 * view.accuracy:.2f} %")
    if view.phase == "training" and view.left_s is not None:
        parts.append(f"{view.left_s:.0f} s left")
    return " · ".join(parts)


def node_line(name: str, usage: Any) -> str:
    """Say what a node uses."""
    return (
        f"{name}  CPU {usage['cpu_percent']:5.0f} %  memory {usage['memory_bytes'] / 1e6:7,.0f} MB"
    )
