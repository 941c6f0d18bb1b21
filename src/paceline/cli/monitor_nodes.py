"""`paceline monitor` on other machines: the same command on each of them."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import Any, Final, final

import typer

from paceline.cli.elsewhere import cluster_elsewhere
from paceline.cli.monitor import sink
from paceline.cli.run import assembled, interrupt_on
from paceline.errors import Problem, SpecError

_ENTRY: Final = "paceline.engine.node_tasks:watch"


def monitor_nodes(
    table: dict[str, Any], command: list[str], interval_s: float, out: Path | None
) -> int:
    """Run a command on each node, show its rows, and give the largest of its exit codes."""
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with assembled(table) as drives:
        return _watch(table, command, interval_s, out) if drives else 0


def _watch(table: dict[str, Any], command: list[str], interval_s: float, out: Path | None) -> int:
    from paceline.comm.node_words import CommandEnded, CommandMissing, CommandUsed, WatchCommand
    from paceline.engine.on_nodes import on_nodes

    task = WatchCommand(command=command, interval_s=interval_s)
    cluster = cluster_elsewhere(table)
    codes: dict[str, int] = {}
    printed = _Prefixed()
    with sink(out, by_node=True) as show, contextlib.closing(printed):
        for node, answer in on_nodes(cluster, _ENTRY, task, printed=printed.show):
            match answer:
                case CommandMissing(reason):
                    told = f"cannot be started on {node}: {reason}"
                    raise SpecError([Problem("COMMAND", command[0], told)])
                case CommandUsed(sample):
                    show(sample, node)
                case CommandEnded(code):
                    codes[node] = code
    ended = ", ".join(f"{node} {code}" for node, code in sorted(codes.items()))
    typer.echo(f"exit codes: {ended}" + (f"; rows in {out}" if out else ""), err=True)
    return max(codes.values(), default=1)


@final
class _Prefixed:
    """Shows what a command prints line by line, each with its node."""

    def __init__(self) -> None:
        self._begun: dict[str, bytes] = {}

    def show(self, node: str, data: bytes) -> None:
        *lines, self._begun[node] = (self._begun.get(node, b"") + data).split(b"\n")
        for line in lines:
            sys.stdout.write(f"{node}: {line.decode(errors='replace')}\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Show last lines that were not ended."""
        for node in sorted(node for node, begun in self._begun.items() if begun):
            self.show(node, b"\n")
