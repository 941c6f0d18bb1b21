"""`paceline calibrate` on other machines: each is measured, into a file of its own."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import typer

from paceline.cli.calibrate import checked
from paceline.cli.run import assembled, interrupt_on
from paceline.spec import RunSpec

_ENTRY: Final = "paceline.engine.node_tasks:calibrate"


def calibrate_nodes(table: dict[str, Any], spec: RunSpec, repeat: int, out: Path | None) -> None:
    """Measure on each node, and write a file for each."""
    interrupt_on(signal.SIGTERM, signal.SIGHUP)
    with assembled(table) as drives:
        if drives:
            _measure(spec, repeat, out)


def _measure(spec: RunSpec, repeat: int, out: Path | None) -> None:
    from paceline.comm.node_words import MeasureRates, RatesMeasured, StepsMeasured
    from paceline.display.consoles import wide_console
    from paceline.engine.on_nodes import on_nodes, workers_on
    from paceline.engine.packing import luggage_of

    workers_on(spec.cluster)
    spec.cluster.verify()
    whole = out or Path(f"{spec.workload.name.rpartition(':')[2]}.rates.toml")
    nodes = list(dict.fromkeys(seat.node for seat in spec.seats()))
    paths = {node: checked(_own(whole, node)) for node in nodes}
    task = MeasureRates(
        spec=spec.toml(),
        num_steps=repeat,
        device=whole.name.removesuffix(".toml").removesuffix(".rates"),
        source=f"paceline calibrate: the median of {repeat} steps",
    )
    console = wide_console(stderr=True)
    with console.status("") as status:
        for node, answer in on_nodes(
            spec.cluster,
            _ENTRY,
            task,
            luggage=luggage_of(spec),
            threads_on=spec.threads_on,
            tell=status.update,
        ):
            match answer:
                case StepsMeasured(num_done=done, num_steps=steps):
                    status.update(f"{node}: step {done + 1} of {steps}")
                case RatesMeasured(rates=text, note=note):
                    _write(paths[node], spec, node, text)
                    if note:
                        console.print(f"[yellow]warning:[/] {node}: {note}")


def _own(path: Path, node: str) -> Path:
    """Name the file of a node: `lenet.rates.toml` of node1 is `lenet-node1.rates.toml`."""
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}-{node}{dot}{rest}")


def _write(path: Path, spec: RunSpec, node: str, text: str) -> None:
    """Write what a node has measured, and say of which machine it is."""
    import tomli_w

    from paceline.compute.rates import rates_in
    from paceline.store.whole_files import write_atomically

    where = f"what {node} measured"
    measured = rates_in(text, where)
    rates = measured.of(next(iter(measured.workloads), spec.workload.name), where)
    host = spec.cluster.host_of(node)
    source = f"{measured.source}, on {node}" + (f" ({host})" if host else "")
    write_atomically(path, tomli_w.dumps(replace(measured, source=source).values()))
    step_s = sum(each.forward_s + each.backward_s for each in rates.layers) + rates.update_s
    typer.echo(f"{path}: a step of {rates.batch} rows takes {1e3 * step_s:.3f} ms")
