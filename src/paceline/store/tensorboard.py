"""A run's rows as TensorBoard events, under the tags people look for."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from paceline.errors import StoreError
from paceline.outcome.disturbed import Disturbance, sentence
from paceline.training.metrics import metrics_in

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
Row = dict[str, Any]
Point = tuple[str, float, int, float]  # tag, value, step, training second


def write_events(
    folder: Path,
    steps: list[Row],
    nodes: list[Row],
    evaluations: list[Row],
    graph: Sequence[Row] = (),
    *,
    disturbances: Sequence[Disturbance] = (),
) -> None:
    """Write one sub-folder a worker, a node, one for the evaluations and one for the graph.

    What disturbed the run is text, in a sub-folder of its own.
    """
    _clear(folder)  # of a driver that was killed while sealing
    for seat in dict.fromkeys(row["seat"] for row in steps):
        points = _worker_points([row for row in steps if row["seat"] == seat])
        _write(_below(folder, seat), points)
    for node in dict.fromkeys(row["node"] for row in nodes):
        points = _node_points([row for row in nodes if row["node"] == node])
        _write(_below(folder, node), points)
    if evaluations:
        _write(folder / "evaluation", _evaluation_points(evaluations))
    if graph:
        _write_graph(folder / "graph", graph)
    if disturbances:
        _write_texts(folder / "disturbances", disturbances)


def _clear(folder: Path) -> None:
    """Remove what is there; of a link the link, and not what it leads to."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _below(folder: Path, name: str) -> Path:
    """Give a seat's own folder: rows that somebody else wrote may name another place."""
    if not _NAME.fullmatch(name):
        raise StoreError(f"no folder can be named after {name!r}")
    return folder / name


def _worker_points(rows: list[Row]) -> Iterable[Point]:
    before_s, before_steps = 0.0, 0
    for row in rows:
        step = row["worker_steps"] if row["global_steps"] is None else row["global_steps"]
        now_s = row["time_s"]
        if row["loss_mean"] is not None:
            yield "loss", row["loss_mean"], step, now_s
        if now_s > before_s:
            rate = (step - before_steps) / (now_s - before_s)
            yield "global_step/sec", rate, step, now_s
        before_s, before_steps = now_s, step


def _node_points(rows: list[Row]) -> Iterable[Point]:
    for number, row in enumerate(rows):
        for key, value in row.items():
            if key not in {"node", "phase", "seats", "time_s"} and value is not None:
                yield f"node/{key}", value, number, row["time_s"]


def _evaluation_points(rows: list[Row]) -> Iterable[Point]:
    for row in rows:
        for key, value in metrics_in(row).items():
            tag = key if key == "accuracy" else f"test/{key}"
            yield tag, value, row["progress"], row["time_s"]


def _write_graph(folder: Path, rows: Sequence[Row]) -> None:
    """Write the model's data flow as TensorBoard's graph page reads it."""
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.versions_pb2 import VersionDef
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    def node(row: Row) -> Any:
        sizes = [TensorShapeProto.Dim(size=size) for size in row["shape"]]
        shapes = AttrValue.ListValue(shape=[TensorShapeProto(dim=sizes)])
        attributes = {"_output_shapes": AttrValue(list=shapes)}
        return NodeDef(name=row["name"], op=row["kind"], input=row["inputs"], attr=attributes)

    graph = GraphDef(node=map(node, rows), versions=VersionDef(producer=22))
    writer = EventFileWriter(str(folder))
    writer.add_event(Event(wall_time=time.time(), graph_def=graph.SerializeToString()))
    writer.close()


def _write_texts(folder: Path, disturbances: Sequence[Disturbance]) -> None:
    """Write what struck when, as TensorBoard's text page reads it."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    plugin = SummaryMetadata.PluginData(plugin_name="text")
    metadata, start_s = SummaryMetadata(plugin_data=plugin), time.time()
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    writer = EventFileWriter(str(folder))
    for number, each in enumerate(disturbances):
        text = TensorProto(
            dtype=DT_STRING, tensor_shape=shape, string_val=[sentence(each).encode()]
        )
        value = Summary.Value(tag="disturbances", tensor=text, metadata=metadata)
        event = Event(
            wall_time=start_s + each.struck_s, step=number, summary=Summary(value=[value])
        )
        writer.add_event(event)
    writer.close()


def _write(folder: Path, points: Iterable[Point]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    start_s = time.time()
    writer = EventFileWriter(str(folder), max_queue_size=1000, flush_secs=120)
    for tag, value, step, second in points:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=start_s + second, step=step, summary=summary))
    writer.close()
