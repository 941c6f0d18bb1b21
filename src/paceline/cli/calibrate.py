"""`paceline calibrate`: how long this machine takes for a step, for `--device replay:FILE`."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.elsewhere import ClusterOption, HostsOption, fields_elsewhere
from paceline.cli.run import asked
from paceline.errors import Problem, SpecError, StoreError

if TYPE_CHECKING:
    from paceline.cli.layout import TextGrid
    from paceline.compute.rates import Rates


def calibrate(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="One that `paceline workloads` lists, or a class of your own.",
            show_default=False,
        ),
    ],
    more_settings: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", hidden=True)
    ] = None,
    *,
    batch: Annotated[
        int | None, typer.Option(help="Rows per step; default: the workload's own.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="How many steps are measured; the median counts.")
    ] = 20,
    threads: Annotated[
        int | None, typer.Option(help="Compute threads; default: as many as one worker would use.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Set a field of the spec."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: WORKLOAD.rates.toml.")
    ] = None,
    cluster: ClusterOption = None,
    hosts: HostsOption = None,
) -> None:
    """Measure forward and backward time layer by layer, and write a file for replay.

    Needs no data. The file is what `paceline run WORKLOAD --device replay:FILE` takes. With
    --cluster and --hosts each of those machines is measured, into a file of its own.
    """
    from paceline.display.consoles import wide_console
    from paceline.spec import RunSpec

    given: dict[str, Any] = {"batch": batch, "threads": threads}
    chosen = {key: value for key, value in given.items() if value is not None}
    if cluster is not None:  # a worker on each node, that exchanges nothing
        chosen |= {"strategy.name": "solo", **fields_elsewhere(cluster, hosts)}
    settings = [*(set_ or []), *(more_settings or [])]
    table = asked(workload, chosen, settings).table()
    spec = RunSpec.from_table(table)
    if spec.cluster.is_elsewhere:
        from paceline.cli.calibrate_nodes import calibrate_nodes

        calibrate_nodes(table, spec, repeat, out)
        return
    path = checked(out or Path(f"{spec.workload.name.rpartition(':')[2]}.rates.toml"))
    from paceline.planning.calibration import calibrate as measure  # brings in torch

    console = wide_console(stderr=True)
    with console.status("") as status:
        rates = measure(
            spec, repeat, lambda done, total: status.update(f"step {done + 1} of {total}")
        )
    _write(path, spec.workload.name, rates, repeat)
    wide_console().print(_layers(rates))
    step_s = sum(each.forward_s + each.backward_s for each in rates.layers) + rates.update_s
    typer.echo(
        f"\na step of {rates.batch} rows takes {1e3 * step_s:.3f} ms (update: "
        f"{1e3 * rates.update_s:.3f} ms): {rates.batch / step_s:,.1f} rows/s\n"
        f"paceline run {workload} --device replay:{path}"
    )
    if rates.note:
        console.print(f"[yellow]warning:[/] {rates.note}")


def checked(path: Path) -> Path:
    """See that the file can be written, and that nothing else is overwritten."""
    from paceline.compute.rates import PREFIX, device_rates

    if path.suffix != ".toml":
        raise SpecError([Problem("--out", str(path), "must end in .toml")])
    if not path.parent.is_dir():
        raise SpecError([Problem("--out", str(path), f"there is no folder {path.parent}")])
    if not os.access(path.parent, os.W_OK):
        raise SpecError([Problem("--out", str(path), f"{path.parent} is not writable")])
    if path.exists():
        try:
            device_rates(f"{PREFIX}{path}")
        except SpecError as error:
            reason = "exists but is not a rates file; not overwritten"
            raise SpecError([Problem("--out", str(path), reason)]) from error
    return path


def _write(path: Path, workload: str, rates: Rates, repeat: int) -> None:
    import tomli_w

    from paceline.planning.calibration import file_table
    from paceline.store.whole_files import write_atomically

    device = path.name.removesuffix(".toml").removesuffix(".rates")
    source = f"paceline calibrate on {platform.node()}: the median of {repeat} steps"
    try:
        write_atomically(path, tomli_w.dumps(file_table(device, workload, rates, source)))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _layers(rates: Rates) -> TextGrid:
    from paceline.cli.tables import plain_table

    table = plain_table("layer", "forward ms>", "backward ms>")
    for each in rates.layers:
        table.add_row(each.layer, *(f"{1e3 * s:.3f}" for s in (each.forward_s, each.backward_s)))
    return table
