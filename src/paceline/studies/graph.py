"""The data-flow graph of a model, as a run has kept it for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars

from paceline.exhibits import drawing
from paceline.exhibits.palette import COLOURS
from paceline.exhibits.values import Column, Figure
from paceline.store.stored import StoredRun
from paceline.studies.charts import figure
from paceline.studies.evidence import Untestable

if TYPE_CHECKING:
    import altair

_COLUMNS: Final = (
    Column(name="node", label="operation"),
    Column(name="kind", label="kind"),
    Column(name="takes", label="takes"),
)


def dataflow(name: str, title: str, run: StoredRun) -> Figure:
    """Draw which operation takes what, from the inputs down to the loss."""
    nodes = _nodes(run)
    depths = _depths(nodes)
    rows = []
    for depth in sorted(set(depths.values())):
        row = [each for each in nodes if depths[each] == depth]
        for place, each in enumerate(row):
            kind, takes = nodes[each]
            across = place - (len(row) - 1) / 2
            rows.append(
                {"node": each, "kind": kind, "takes": ", ".join(takes), "x": across, "y": -depth}
            )
    frame = polars.DataFrame(rows)
    return figure(name, title, frame, _COLUMNS, _draw, runs={"": run})


def _draw(frame: polars.DataFrame) -> altair.TopLevelMixin:
    import altair as alt

    places = {row["node"]: (row["x"], row["y"]) for row in frame.iter_rows(named=True)}
    edges = [
        {"x": places[each][0], "y": places[each][1], "x2": row["x"], "y2": row["y"]}
        for row in frame.iter_rows(named=True)
        for each in filter(None, row["takes"].split(", "))
        if each in places
    ]
    axes: dict[str, Any] = {"axis": None, "type": "quantitative"}
    width = float(frame["x"].abs().max() or 0) + 1  # type: ignore[arg-type]
    across = alt.X("x", **axes, scale=alt.Scale(domain=[-width, width]))
    lines = (
        alt.Chart(alt.InlineData(values=edges))
        .mark_rule(opacity=0.4, color="currentColor")
        .encode(x=across, y=alt.Y("y", **axes), x2="x2", y2="y2")
    )
    data = alt.InlineData(values=frame.to_dicts())
    base = alt.Chart(data).encode(x=across, y=alt.Y("y", **axes))
    dots = base.mark_circle(size=160, color=COLOURS["ring"])
    text = base.mark_text(dx=12, align="left", color="currentColor").encode(text="node:N")
    height = 46 * (frame["y"].n_unique() + 1)
    return drawing.styled(
        alt.layer(lines, dots, text).properties(width=drawing.WIDTH, height=height)
    )


def _nodes(run: StoredRun) -> dict[str, tuple[str, list[str]]]:
    """Read kind and inputs of every operation."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    for file in sorted(run.folder.tensorboard.rglob("events.*")):
        for raw in RawEventFileLoader(str(file)).Load():
            event = Event.FromString(raw)
            if event.graph_def:
                graph = GraphDef.FromString(event.graph_def)
                return {each.name: (each.op, list(each.input)) for each in graph.node}
    raise Untestable("the run has kept no data-flow graph (record.tensorboard)")


def _depths(nodes: Mapping[str, tuple[str, list[str]]]) -> dict[str, int]:
    """Put every operation below all it takes."""
    depths: dict[str, int] = {}
    for name, (_, takes) in nodes.items():  # each stands behind what it takes
        depths[name] = max((depths[each] + 1 for each in takes if each in depths), default=0)
    return depths
