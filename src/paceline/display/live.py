"""A run while it goes on: a live panel on a terminal, plain lines in a pipe.

All of it goes to standard error, so that standard output holds only the result.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from paceline.display.consoles import rate, short, text_of_left, wide_console, with_origin
from paceline.outcome.results import label
from paceline.training.metrics import in_order, written

if TYPE_CHECKING:
    from paceline.engine.progress import RunView
    from paceline.spec import RunSpec

_LINE_EVERY_S: Final = 5.0
_BAR_WIDTH: Final = 24
_NODE_BAR_WIDTH: Final = 10
# More metrics than this do not fit into a line.
_METRICS_SHOWN: Final = 3


@contextlib.contextmanager
def watching(spec: RunSpec) -> Iterator[Callable[[RunView], None]]:
    """Give a function to call with each view of the run."""
    console = wide_console(stderr=True)
    title = title_of(spec)
    if console.is_terminal and not spec.cluster.shares_process:
        # What a script prints stands above the panel, or goes where standard output goes.
        redirects = sys.stdout.isatty()
        with Live(
            console=console, refresh_per_second=8, transient=True, redirect_stdout=redirects
        ) as live:
            cores_of = _cores(spec)
            show = alerting(
                warn_on(console), lambda view: live.update(panel(title, view, cores_of))
            )
            yield show
    else:
        yield alerting(warn_on(console), _Lines(console, title).show)


def title_of(spec: RunSpec) -> str:
    """Say what is run."""
    workload = with_origin(short(spec.workload.name), spec.workload.supply().data)
    title = " · ".join((workload, short(spec.strategy.name), short(spec.cluster.name)))
    if spec.num_workers > 1:
        title += f" · {spec.num_workers} workers"
    if spec.is_replayed:
        title += f" · {label('replayed', spec.device, spec.dilation)}"
    return title


def alerting(
    warn: Callable[[str], None], show: Callable[[RunView], None]
) -> Callable[[RunView], None]:
    """Show a view, and before it what is urgent in it, each once; a live panel stays below."""
    told: set[str] = set()

    def show_all(view: RunView) -> None:
        for text in view.alerts:
            if text not in told:
                warn(text)
        told.update(view.alerts)
        if view.printed:
            sys.stdout.write(view.printed)
            sys.stdout.flush()
        show(view)

    return show_all


def warn_on(console: Console) -> Callable[[str], None]:
    """Give a function that prints a warning."""
    return lambda text: console.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)


class _Lines:
    """A line when the phase changes, and one every few seconds."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._last_phase = ""
        self._last_s = 0.0

    def show(self, view: RunView) -> None:
        now_s = time.monotonic()
        if view.phase == self._last_phase and now_s - self._last_s < _LINE_EVERY_S:
            return
        if not self._last_phase:
            self._console.print(self._title, markup=False)
        self._last_phase, self._last_s = view.phase, now_s
        self._console.print(f"  {headline(view)}", markup=False)


def _cores(spec: RunSpec) -> Callable[[str], float]:
    from paceline.system.cores import usable_cores

    all_cores = usable_cores() or 1.0
    return lambda node: min(spec.cluster.cores_of(node) or all_cores, all_cores)


def panel(title: str, view: RunView, cores_of: Callable[[str], float]) -> Group:
    """Draw the run: what, how far, how fast, and a line per node."""
    bar = ProgressBar(total=1.0, completed=view.fraction or 0.0, width=_BAR_WIDTH)
    top = Table.grid(padding=(0, 1))
    top.add_column(overflow="fold")
    top.add_column(no_wrap=True)
    top.add_column(no_wrap=True)
    percent = "" if view.fraction is None else f"{100 * view.fraction:3.0f} %"
    top.add_row(Text(title, style="bold"), bar, percent)
    lines: list[Any] = [top, Text(f"  {headline(view)}")]
    nodes = sorted(view.nodes.items(), key=lambda each: (len(each[0]), each[0]))
    lines += [Text(f"  {node_line(name, usage, cores_of(name))}") for name, usage in nodes]
    return Group(*lines)


def headline(view: RunView) -> str:
    """Say in one line how the run stands."""
    if view.phase == "preparing":
        done = "" if view.fraction is None else f": {100 * view.fraction:.0f} %"
        return f"{view.note}{done}"
    if view.phase == "starting":
        return f"starting: {view.note}" if view.note else "starting"
    if view.phase == "stopping":
        return "stopping after this step; Ctrl-C once more to stop at once"
    second = "s" if view.dilation == 1 else "virtual s"
    parts = [view.phase, f"{view.time_s:.1f} {second}"]
    steps = view.worker_steps if view.global_steps is None else view.global_steps
    parts.append(f"step {steps:,}")
    if view.steps_per_s:
        parts.append(f"{rate(view.steps_per_s)} steps/{second}")
    if view.loss is not None:
        parts.append(f"loss {view.loss:.4f}")
    tested = [name for name in in_order(view.metrics) if name != "loss"]
    parts += [f"{name} {written(name, view.metrics[name])}" for name in tested[:_METRICS_SHOWN]]
    left = text_of_left(view.left_s) if view.phase == "training" else ""
    return " · ".join(parts) + left


def node_line(name: str, usage: Any, num_cores: float) -> str:
    """Say what a node uses: a bar of its cores, or of its device where compute is replayed."""
    busy = usage.get("device_busy_percent")
    percent = usage["cpu_percent"] if busy is None else busy
    bar = _bar(percent / (100 * num_cores if busy is None else 100))
    what = "CPU" if busy is None else "device"
    line = f"{name}  {what} {bar} {percent:3.0f} %  memory {usage['memory_bytes'] / 1e6:,.0f} MB"
    return line + _traffic(usage)


def _traffic(usage: Any) -> str:
    """Say how fast the node's link is; without a link, what its workers count themselves."""
    for prefix, word in (("net_", ""), ("", "exchanged ")):
        rates = [usage.get(f"{prefix}{way}_bytes_per_s") for way in ("received", "sent")]
        if None not in rates:
            return f"  {word}in {rates[0] / 1e6:5,.1f}  out {rates[1] / 1e6:5,.1f} MB/s"
    return ""


def _bar(share: float) -> str:
    full = round(_NODE_BAR_WIDTH * min(1.0, max(0.0, share)))
    return "█" * full + "░" * (_NODE_BAR_WIDTH - full)
