"""`paceline doctor --ray`: what a Ray cluster offers."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paceline.cli.layout import TextGrid


def show_offers(address: str, *, as_json: bool) -> None:
    """Show each node, what is free there, and whether it can take part."""
    from paceline.clusters.agents.ray.describe import offers_of
    from paceline.display.consoles import wide_console

    nodes = offers_of(address)
    usable = any(each["problem"] is None for each in nodes)
    if as_json:
        typer.echo(dumps({"ok": usable, "nodes": nodes}))
    else:
        wide_console().print(_table(nodes))
    if not usable:
        raise typer.Exit(1)


def _table(nodes: list[dict[str, Any]]) -> TextGrid:
    from rich.markup import escape

    from paceline.cli.layout import Head
    from paceline.cli.tables import listing, words

    heads = (Head("host"), Head("address"), words("free"), words("versions"), words("problem"))
    table = listing(*heads)
    for each in nodes:
        versions = ", ".join(f"{name} {number}" for name, number in each["versions"].items())
        cells = (each["host"], each["address"], _free(each), versions, each["problem"] or "")
        table.add_row(*map(escape, cells))
    return table


def _free(node: Mapping[str, Any]) -> str:
    pairs = [f"{name} {node['free'][name]:g} of {total:g}" for name, total in node["total"].items()]
    return ", ".join(pairs) or "nothing"
