"""A result as a person reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from paceline.cli.tables import pairs, plain_table
from paceline.display.consoles import rate, short, wide_console, with_origin
from paceline.outcome.disturbed import sentence
from paceline.seats import role_of
from paceline.store.checkpoints import folders
from paceline.store.runs import RunDir
from paceline.training.metrics import in_order, written

if TYPE_CHECKING:
    from paceline.cli.layout import TextGrid
    from paceline.outcome.results import NodeUsage, Result, ServerTotals, WorkerTotals


_IN_WORDS: Final[dict[str, tuple[str, Callable[[str, float], str]]]] = {
    "larger_class": ("majority class alone", lambda _, share: percent(share)),
    "top5": ("top-5 accuracy", lambda _, share: percent(share)),
    "auc": ("AUC", written),
}
"""Metrics of our own workloads, as they are said."""

_MOST_DISTURBANCES: Final = 3
"""Of more, a summary says only how many there were."""


def print_result(result: Result) -> None:
    """Print the outcome, where the time went, and what each node used."""
    console = wide_console()
    console.print(_outcome(result))
    if any(worker.compute_s is not None for worker in result.workers):
        console.print(_workers(result))
    if result.servers:
        console.print(_servers(result))
    console.print(_nodes(result))
    if any(node.link_bits_per_s for node in result.nodes):
        console.print(_links(result))
    if result.verdict is not None:
        console.print(f"[bold]verdict[/] {escape(result.verdict.sentence)}")
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    console.print(f"[dim]{escape(result.run)}[/]", soft_wrap=True)


def print_how_to_go_on(result: Result) -> None:
    """Print what to type to go on with a run that did not finish, where it has a checkpoint."""
    run = RunDir(Path(result.run))
    if folders(run):
        text = f"to go on from its newest checkpoint: paceline resume {run.path}"
        wide_console().print(escape(text), soft_wrap=True)


def print_listeners(result: Result) -> None:
    """Print where anyone could call a process of the run while it went on."""
    if not result.listeners:
        return
    table = plain_table("listener", "at")
    for name, places in result.listeners.items():
        table.add_row(escape(name), escape(", ".join(places)))
    wide_console().print(table)


def _outcome(result: Result) -> TextGrid:
    table = pairs()
    workload = with_origin(short(result.workload), result.data)
    title = " · ".join((workload, short(result.strategy), short(result.cluster)))
    what = escape(f"({result.meaning}; batch {result.batch_size})")
    table.add_row("[bold]run", f"[bold]{escape(title)}[/] {what}")
    if result.compute != "real":
        table.add_row("compute", _computed(result))
    if result.status != "finished":
        table.add_row("status", f"[red]{result.status}[/]: {escape(str(result.reason))}")
    if result.parent:
        table.add_row("goes on from", escape(f"{result.parent}, step {result.parent_step:,}"))
    if result.attempts:
        times, lost_s = len(result.attempts), sum(_lost_s(result))
        table.add_row("started again", f"{times}x after a loss, which cost {lost_s:.1f} s")
    if result.data:
        table.add_row("data", escape(result.data))
    if result.threads_why:
        table.add_row("threads", escape(f"{result.threads} per worker: {result.threads_why}"))
    if chosen := _chosen(result):
        table.add_row("all-reduce", chosen)
    if result.train_s:
        table.add_row("trained", _trained(result))
    if result.disturbances:
        table.add_row("disturbed", _disturbed(result))
    if result.final_loss is not None:
        table.add_row("training loss", f"{result.final_loss:.4f}  (mean of the last tenth)")
    if result.test_metrics:
        first, *_ = in_order(result.test_metrics)
        table.add_row(f"test {escape(first)}", _tested(result))
    if result.target:
        reached = result.seconds_to_target
        when = "not reached" if reached is None else f"reached after {reached:.2f} s"
        table.add_row("target", f"{escape(result.target)}: {when}")
    return table


def _chosen(result: Result) -> str:
    """Which all-reduce `auto` chose, and what for; the empty text where it was not asked for."""
    for worker in result.workers:
        if worker.algorithm is not None:
            trip_ms = 1000 * (worker.round_trip_s or 0.0)
            return f"{escape(worker.algorithm)}, chosen by auto: a round trip took {trip_ms:.2f} ms"
    return ""


def cost_of_disturbances(result: Result) -> str:
    """What all disturbances of a run together cost."""
    parts = [f"goodput {100 * (result.goodput or 0.0):.0f} % of all workers' time"]
    if result.dropped_steps:
        parts.append(f"{result.dropped_steps:,} steps dropped")
    if result.rows_lost is not None:
        parts.append(f"about {result.rows_lost:,} rows not trained on")
    return ", ".join(parts)


def _disturbed(result: Result) -> str:
    """What struck, each by a sentence where there are few, and what all of it cost."""
    struck = result.disturbances
    lines = [sentence(each) for each in struck[:_MOST_DISTURBANCES]]
    if len(struck) > _MOST_DISTURBANCES:
        lines = [f"{len(struck)} times; paceline explain tells of each"]
    if result.goodput is not None:
        lines.append(cost_of_disturbances(result))
    return escape("\n".join(lines))


def _lost_s(result: Result) -> list[float]:
    """For how long after each loss that started all again nothing new was done."""
    return [each.update_s or 0.0 for each in result.disturbances if each.lost_step is not None]


def _computed(result: Result) -> str:
    """Say that nothing was computed, and so nothing learnt."""
    limited = ", [red]host-limited[/]" if result.host_limited else ""
    return f"[bold]{escape(result.label)}[/]{limited}; replayed: no loss, no accuracy"


def _tested(result: Result) -> str:
    """The final parameters on the test rows: every metric, the first of them by the row's label."""
    metrics = result.test_metrics
    first, *others = in_order(metrics)
    parts = [f"[bold]{written(first, metrics[first])}[/]"]
    for name in others:
        words, form = _IN_WORDS.get(name, (escape(name), written))
        parts.append(f"{words} {form(name, metrics[name])}")
    if result.buffers_of and result.num_workers > 1:
        parts.append(f"with the batch statistics of {escape(result.buffers_of)}")
    return ", ".join(parts)


def _trained(result: Result) -> str:
    steps, per_s = result.global_steps, result.steps_per_s
    if steps is None:
        steps, per_s = result.worker_steps, result.worker_steps_per_s
    # A script need not have a loader whose rows can be counted.
    samples = f"{result.samples:,}" if result.samples else "-"
    samples_per_s = rate(result.samples_per_s) if result.samples_per_s else "-"
    return (
        f"{steps:,} {'steps' if result.global_steps is not None else 'worker steps'}, "
        f"{samples} samples in {result.train_s:.2f} s: "
        f"[bold]{rate(per_s or 0.0)} steps/s[/], {samples_per_s} samples/s"
    )


def _workers(result: Result) -> TextGrid:
    phases = ("load>", "compute>", "exchange>", "other>")
    table = plain_table("worker", "steps>", "train s>", *phases, "memory peak>")
    for worker in result.workers:
        peak = worker.memory_peak_bytes
        table.add_row(
            worker.name,
            f"{worker.worker_steps:,}",
            f"{worker.train_s:.2f}",
            *_shares(worker),
            "-" if peak is None else f"{peak / 1e6:,.1f} MB",
        )
    return table


def _shares(worker: WorkerTotals) -> list[str]:
    """Each phase's part of a worker's time."""
    spans = [worker.load_s or 0.0, worker.compute_s or 0.0, worker.exchange_s or 0.0]
    total_s = worker.train_s or 1.0
    shares = [*(span / total_s for span in spans), max(0.0, 1 - sum(spans) / total_s)]
    return [f"{100 * share:.1f} %" for share in shares]


def _servers(result: Result) -> TextGrid:
    table = plain_table(
        "server", "updates>", "dropped>", "refused>", "applying>", "queued per push>"
    )
    for server in result.servers:
        train_s = result.train_s or 1.0
        counts = (server.updates, server.dropped, server.refused)
        applying = f"{100 * server.apply_s / train_s:.1f} %"
        table.add_row(server.name, *(f"{count:,}" for count in counts), applying, _queued(server))
    return table


def _queued(server: ServerTotals) -> str:
    """How long a push waited at a server; a run may end before the first one counts."""
    if server.queue_s is None or not server.updates:
        return "-"
    return f"{1e6 * server.queue_s / server.updates:.0f} µs"


def _nodes(result: Result) -> TextGrid:
    columns = ("CPU mean>", "CPU peak>", "memory mean>", "memory peak>")
    device = ("device busy>",) if result.compute != "real" else ()
    traffic = ("disk read>", "disk written>", "net sent>", "net received>")
    table = plain_table("node", "seats", *device, *columns, *traffic)
    for node in result.nodes:
        busy = node.device_busy_percent
        cells = ["-" if busy is None else f"{busy:.0f} %"] if device else []
        table.add_row(node.name, _seats(node), *cells, *_usage(node))
    return table


def _seats(node: NodeUsage) -> str:
    """Name few seats, count many."""
    if len(node.seats) <= 2:
        return ", ".join(node.seats)
    counts = Counter(role_of(seat) for seat in node.seats)
    return ", ".join(f"{count} {role}s" if count > 1 else role for role, count in counts.items())


def _usage(node: NodeUsage) -> list[str]:
    cpu = [node.cpu_percent_mean, node.cpu_percent_peak]
    amounts = [
        node.memory_mean_bytes,
        node.memory_peak_bytes,
        node.disk_read_bytes,
        node.disk_written_bytes,
        node.net_sent_bytes,
        node.net_received_bytes,
    ]
    return [
        *("-" if each is None else f"{each:.0f} %" for each in cpu),
        *("-" if each is None else f"{each / 1e6:,.1f} MB" for each in amounts),
    ]


def _links(result: Result) -> TextGrid:
    """What each link is like, and its payload over what theory says."""
    columns = ("link>", "carried out>", "carried in>", "sent / theory>", "received / theory>")
    table = plain_table("node", *columns)
    ratios = {each.node: each for each in result.traffic.nodes} if result.traffic else {}
    for node in result.nodes:
        law = ratios.get(node.name)
        rates = (node.link_bits_per_s, node.link_sent_bits_per_s, node.link_received_bits_per_s)
        shares = (law.sent_ratio, law.received_ratio) if law else (None, None)
        table.add_row(
            node.name,
            *("-" if each is None else f"{each / 1e6:,.0f} Mbit/s" for each in rates),
            *("-" if each is None else f"{each:.4f}" for each in shares),
        )
    return table


def percent(share: float) -> str:
    """Write a share of one as per cent."""
    return f"{100 * share:.2f} %"
