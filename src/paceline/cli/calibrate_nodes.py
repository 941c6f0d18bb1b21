"""`paceline calibrate` on other machines: each is measured, into a file of its own."""

from __future__ import annotations

import json
import signal
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
    from paceline.display.consoles import wide_console
    from paceline.engine.on_nodes import on_nodes, workers_on
    from paceline.engine.packing import luggage_of

    workers_on(spec.cluster)
    spec.cluster.verify()
    whole = out or Path(f"{spec.workload.name.rpartition(':')[2]}.rates.toml")
    nodes = list(dict.fromkeys(seat.node for seat in spec.seats()))
    paths = {node: checked(_own(whole, node)) for node in nodes}
    asked = {
        "spec": spec.toml(),
        "repeat": repeat,
        "device": whole.name.removesuffix(".toml").removesuffix(".rates"),
        "source": f"paceline calibrate: the median of {repeat} steps",
    }
    console = wide_console(stderr=True)
    with console.status("") as status:
        for node, said in on_nodes(
            spec.cluster,
            _ENTRY,
            json.dumps(asked),
            luggage=luggage_of(spec),
            threads_on=spec.threads_on,
            tell=status.update,
        ):
            if "total" in said:
                status.update(f"{node}: step {said['done'] + 1} of {said['total']}")
            else:
                _write(paths[node], _named(spec, node, json.loads(said["table"])))
                if said["note"]:
                    console.print(f"[yellow]warning:[/] {node}: {said['note']}")


def _named(spec: RunSpec, node: str, table: dict[str, Any]) -> dict[str, Any]:
    """Say on which machine it was measured."""
    host = spec.cluster.host_of(node)
    return {**table, "source": f"{table['source']}, on {node}" + (f" ({host})" if host else "")}


def _own(path: Path, node: str) -> Path:
    """Name the file of a node: `lenet.rates.toml` of node1 is `lenet-node1.rates.toml`."""
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}-{node}{dot}{rest}")


def _write(path: Path, table: dict[str, Any]) -> None:
    import tomli_w

    from paceline.store.whole_files import write_atomically

    write_atomically(path, tomli_w.dumps(table))
    (rates,) = table["workloads"].values()
    step_s = sum(each["forward_s"] + each["backward_s"] for each in rates["layers"])
    step_s += rates["update_s"]
    typer.echo(f"{path}: a step of {rates['batch']} rows takes {1e3 * step_s:.3f} ms")
