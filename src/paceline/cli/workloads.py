"""`paceline workloads`: what there is to train. `paceline show --graph`: what one is made of."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cli.layout import TextGrid
    from paceline.workloads.anatomy import Anatomy, Layer
    from paceline.workloads.base import Workload

MIB = 2**20


def workloads(
    data_dir: Annotated[
        Path | None, typer.Option(help="The cache folder of `paceline data get`.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the workloads: size, multiply-adds per row, data, whether it is here, how to get it.

    Sizes are of the default fields; `paceline show --graph` tells those of others.
    """
    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, number, words
    from paceline.display.consoles import wide_console
    from paceline.workloads import WORKLOADS

    rows = [_row(name, data_dir) for name in WORKLOADS.entries]
    if json_:
        print(json.dumps(rows))  # noqa: T201
        return
    table = listing(
        Head("workload"),
        number("parameters"),
        number("MiB"),
        number("multiply-adds per row"),
        words("data", rank=1),
        words("here"),
        words("how to get it", rank=2),
    )
    for row in rows:
        table.add_row(row["workload"], *_sizes(row), row["data"], row["here"], row["remedy"])
    wide_console().print(table)


def show_graph(workload: Workload, *, as_json: bool) -> None:
    """Print the layers of a workload's model."""
    from paceline.workloads.anatomy import examine

    anatomy = examine(workload)
    if as_json:
        print(json.dumps(_plain(workload, anatomy)))  # noqa: T201
        return
    from paceline.display.consoles import wide_console

    console = wide_console()
    console.print(_layers(anatomy))
    console.print(
        f"\n{workload.name}: {anatomy.num_parameters:,} parameters, "
        f"{anatomy.num_bytes / MIB:,.1f} MiB as float32, "
        f"{count(anatomy.multiply_adds)} multiply-adds per row (forward)"
    )


def _row(name: str, data_dir: Path | None) -> dict[str, Any]:
    from paceline.workloads import WORKLOADS
    from paceline.workloads.anatomy import examine

    cls, fixed = WORKLOADS.find(name)
    workload: Any = cls(**fixed)
    if data_dir and "data_dir" in workload.values():
        workload = dataclasses.replace(workload, data_dir=data_dir)
    row: dict[str, Any] = {
        "workload": name,
        "parameters": None,
        "bytes": None,
        "multiply_adds": None,
    }
    try:
        anatomy = examine(workload)
    except PacelineError:  # its size follows from data that is not here
        pass
    else:
        row |= {"parameters": anatomy.num_parameters, "bytes": anatomy.num_bytes}
        row |= {"multiply_adds": anatomy.multiply_adds}
    return row | dataclasses.asdict(workload.supply())


def _sizes(row: dict[str, Any]) -> list[str]:
    if row["parameters"] is None:
        return ["-", "-", "-"]
    mib = row["bytes"] / MIB
    size = f"{mib:,.2f}" if mib < 10 else f"{mib:,.0f}"
    return [f"{row['parameters']:,}", size, count(row["multiply_adds"])]


def _layers(anatomy: Anatomy) -> TextGrid:
    from paceline.cli.tables import plain_table

    table = plain_table("layer", "kind", "input", "output", "parameters>", "multiply-adds>")
    for layer in anatomy.layers:
        table.add_row(*_cells(layer))
    return table


def _cells(layer: Layer) -> list[str]:
    shapes = [_shape(layer.inputs), _shape(layer.output)]
    numbers = (layer.num_parameters, layer.multiply_adds)
    return [layer.name, layer.kind, *shapes, *(f"{each:,}" if each else "" for each in numbers)]


def _shape(shape: tuple[int, ...] | None) -> str:
    return "-" if shape is None else " x ".join(map(str, shape)) or "1"


def _plain(workload: Workload, anatomy: Anatomy) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "parameters": anatomy.num_parameters,
        "bytes": anatomy.num_bytes,
        "multiply_adds": anatomy.multiply_adds,
        "layers": [dataclasses.asdict(layer) for layer in anatomy.layers],
    }


def count(number: int) -> str:
    """Write a large number with three digits and a word."""
    for limit, word in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= limit:
            return f"{number / limit:,.3g} {word}"
    return str(number)
