"""`paceline monitor`: what any command and its descendants use, while it runs."""

from __future__ import annotations

import csv
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from paceline.cli.elsewhere import ClusterOption, HostsOption, SetOption, cluster_table
from paceline.errors import Problem, SpecError

if TYPE_CHECKING:
    from paceline.outcome.rows import CommandSample

HELP = """Run a COMMAND and log what it and all its descendants use.

With --out the rows go to a CSV file, without they are shown as they come. Ends as the command \
does, with its exit code. With --cluster and --hosts it runs on each of those machines, and rows \
say on which.

Examples:

  paceline monitor --out node0.csv -- python train.py --epochs 3

  paceline monitor --interval 2 -- make -j4

  paceline monitor --cluster ssh --hosts a,b --out nodes.csv -- python train.py
"""
_HEADER: Final = "   time    CPU     memory       read    written   net sent   received  processes"


def monitor(  # noqa: PLR0917 - each is an option on the command line
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run, after --.")],
    out: Annotated[
        Path | None, typer.Option(help="Write rows to this CSV file instead of showing them.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two rows.", min=0.05)] = 0.5,
    cluster: ClusterOption = None,
    hosts: HostsOption = None,
    set_: SetOption = None,
) -> None:
    from paceline.measure.job import NotStarted, watch_job

    if table := cluster_table(cluster, hosts, set_):
        from paceline.cli.monitor_nodes import monitor_nodes

        raise typer.Exit(monitor_nodes(table, command, interval, out))
    summary = _Summary()
    with sink(out) as show:

        def note(sample: CommandSample) -> None:
            summary.add(sample)
            show(sample, "")

        try:
            code = watch_job(command, interval, note)
        except NotStarted as error:
            reason = f"cannot be started: {error}"
            raise SpecError([Problem("COMMAND", command[0], reason)]) from error
    typer.echo(summary.line(out), err=True)
    raise typer.Exit(code)


@contextmanager
def sink(
    out: Path | None, *, by_node: bool = False
) -> Iterator[Callable[[CommandSample, str], None]]:
    """Give a function that shows a row, or keeps it; `by_node`: with the node that it is of."""
    if out is None:
        typer.echo(f"{'node':8}{_HEADER}" if by_node else _HEADER, err=True)
        yield lambda sample, node: typer.echo(_shown(sample, node), err=True)
        return
    from paceline.outcome.rows import CommandSample

    columns = [*(["node"] if by_node else []), *(each.name for each in fields(CommandSample))]
    try:
        file = out.open("w", newline="", buffering=1)
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise SpecError([Problem("--out", str(out), reason)]) from error
    try:
        yield _Rows(writer, out).write
    finally:
        with suppress(OSError):  # what it could not write was told when it was to be written
            file.close()


class _Rows:
    """Writes rows to a file for as long as it takes them; the command goes on without."""

    def __init__(self, writer: csv.DictWriter[str], out: Path) -> None:
        self._writer = writer
        self._out = out
        self._is_full = False

    def write(self, sample: CommandSample, node: str) -> None:
        if self._is_full:
            return
        row: dict[str, Any] = {"node": node, **asdict(sample)}
        try:
            self._writer.writerow(row)
        except OSError as error:
            self._is_full = True
            typer.echo(f"{self._out} takes no more rows: {error.strerror}", err=True)


def _shown(sample: CommandSample, node: str) -> str:
    held, told = sample.memory_bytes, (sample.disk_read_bytes, sample.disk_written_bytes)
    amounts = [held, *told, sample.machine_sent_bytes, sample.machine_received_bytes]
    texts = ["-" if each is None else f"{each / 1e6:,.1f} MB" for each in amounts]
    columns = " ".join(f"{text:>10}" for text in texts)
    text = f"{sample.time_s:6.1f}s {sample.cpu_percent:5.0f}% {columns} {sample.processes:10d}"
    return f"{node:8}{text}" if node else text


class _Summary:
    """The whole job in one line."""

    def __init__(self) -> None:
        self._last_s = 0.0
        self._peak_bytes = 0

    def add(self, sample: CommandSample) -> None:
        self._last_s = sample.time_s
        self._peak_bytes = max(self._peak_bytes, sample.memory_bytes)

    def line(self, out: Path | None) -> str:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime
        share = 100 * cpu_s / self._last_s if self._last_s else 0.0
        text = (
            f"{self._last_s:.1f} s, CPU {share:.0f} % of a core ({cpu_s:.1f} s), "
            f"memory at most {self._peak_bytes / 1e6:,.0f} MB"
        )
        return f"{text}; rows in {out}" if out else text
