"""`paceline monitor`: what any command and its descendants use, while it runs."""

from __future__ import annotations

import csv
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from paceline.cli.elsewhere import ClusterOption, HostsOption, SetOption, cluster_table
from paceline.errors import Problem, SpecError

Row = dict[str, Any]

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

        def note(row: Row) -> None:
            summary.add(row)
            show(row)

        try:
            code = watch_job(command, interval, note)
        except NotStarted as error:
            reason = f"cannot be started: {error}"
            raise SpecError([Problem("COMMAND", command[0], reason)]) from error
    typer.echo(summary.line(out), err=True)
    raise typer.Exit(code)


@contextmanager
def sink(out: Path | None, *, first: str = "") -> Iterator[Callable[[Row], None]]:
    """Give a function that shows a row, or keeps it; `first` names a column before all others."""
    if out is None:
        typer.echo(f"{first:8}{_HEADER}" if first else _HEADER, err=True)
        yield lambda row: typer.echo(_shown(row, first), err=True)
        return
    from paceline.measure.job import COLUMNS

    try:
        file = out.open("w", newline="", buffering=1)
        writer = csv.DictWriter(file, [*([first] if first else []), *COLUMNS])
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

    def write(self, row: Row) -> None:
        if self._is_full:
            return
        try:
            self._writer.writerow(row)
        except OSError as error:
            self._is_full = True
            typer.echo(f"{self._out} takes no more rows: {error.strerror}", err=True)


def _shown(row: Row, first: str = "") -> str:
    sizes = ("memory", "disk_read", "disk_written", "machine_sent", "machine_received")
    amounts = [row[f"{name}_bytes"] for name in sizes]
    texts = ["-" if each is None else f"{each / 1e6:,.1f} MB" for each in amounts]
    columns = " ".join(f"{text:>10}" for text in texts)
    text = f"{row['time_s']:6.1f}s {row['cpu_percent']:5.0f}% {columns} {row['processes']:10d}"
    return f"{row[first]:8}{text}" if first else text


class _Summary:
    """The whole job in one line."""

    def __init__(self) -> None:
        self._last_s = 0.0
        self._peak_bytes = 0

    def add(self, row: Row) -> None:
        self._last_s = row["time_s"]
        self._peak_bytes = max(self._peak_bytes, row["memory_bytes"])

    def line(self, out: Path | None) -> str:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime
        share = 100 * cpu_s / self._last_s if self._last_s else 0.0
        text = (
            f"{self._last_s:.1f} s, CPU {share:.0f} % of a core ({cpu_s:.1f} s), "
            f"memory at most {self._peak_bytes / 1e6:,.0f} MB"
        )
        return f"{text}; rows in {out}" if out else text
