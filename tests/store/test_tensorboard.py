"""A run's rows can be read back by TensorBoard's own reader."""

from pathlib import Path
from typing import Any

import pytest

from paceline.outcome.disturbed import Disturbance
from paceline.store.tensorboard import write_events


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    found: dict[str, list[tuple[int, float]]] = {}
    (file,) = folder.iterdir()
    for raw in RawEventFileLoader(str(file)).Load():
        event = Event.FromString(raw)
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def step_row(seat: str, time_s: float, steps: int, shared: int | None) -> dict[str, Any]:
    return {
        "seat": seat,
        "time_s": time_s,
        "worker_steps": steps,
        "global_steps": shared,
        "loss_mean": 1 / steps,
    }


def test_a_worker_has_its_loss_and_rate_over_global_steps(tmp_path: Path):
    rows = [step_row("worker0", 0.5, 10, 20), step_row("worker0", 1.0, 25, 50)]
    write_events(tmp_path, rows, [], [])
    assert read(tmp_path / "worker0") == {
        "loss": [(20, pytest.approx(0.1)), (50, pytest.approx(0.04))],
        "global_step/sec": [(20, 40.0), (50, 60.0)],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["worker0"]


def test_workers_that_share_nothing_count_their_own_steps(tmp_path: Path):
    rows = [step_row("worker0", 0.5, 10, None), step_row("worker1", 0.5, 20, None)]
    write_events(tmp_path, rows, [], [])
    assert read(tmp_path / "worker0")["global_step/sec"] == [(10, 20.0)]
    assert read(tmp_path / "worker1")["global_step/sec"] == [(20, 40.0)]


def test_two_rows_of_one_moment_do_not_divide_by_zero(tmp_path: Path):
    rows = [step_row("worker0", 0.0, 1, 1), step_row("worker0", 0.0, 2, 2)]
    write_events(tmp_path, rows, [], [])
    assert "global_step/sec" not in read(tmp_path / "worker0")


def test_a_node_has_what_was_measured_of_it(tmp_path: Path):
    row = {"node": "node0", "time_s": 1.0, "phase": "training", "cpu_percent": 150.0}
    write_events(tmp_path, [], [row | {"memory_bytes": 1000, "disk_read_bytes": None}], [])
    assert read(tmp_path / "node0") == {
        "node/cpu_percent": [(0, 150.0)],
        "node/memory_bytes": [(0, 1000.0)],
    }


def test_evaluations_are_accuracy_and_test_metrics(tmp_path: Path):
    rows = [{"time_s": 1.0, "progress": 40, "accuracy": 0.5, "loss": float("inf"), "top5": 0.75}]
    write_events(tmp_path, [], [], rows)
    assert read(tmp_path / "evaluation") == {
        "accuracy": [(40, 0.5)],
        "test/loss": [(40, float("inf"))],
        "test/top5": [(40, 0.75)],
    }


def test_the_graph_is_read_back_as_a_graph(tmp_path: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = [
        {"name": "batch/0", "kind": "Input", "inputs": [], "shape": [1, 784]},
        {"name": "layer/addmm", "kind": "addmm", "inputs": ["batch/0"], "shape": [1, 10]},
    ]
    write_events(tmp_path, [], [], [], rows)
    graph = EventAccumulator(str(tmp_path / "graph")).Reload().Graph()
    assert [(node.name, node.op, list(node.input)) for node in graph.node] == [
        ("batch/0", "Input", []),
        ("layer/addmm", "addmm", ["batch/0"]),
    ]
    (shape,) = graph.node[1].attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [1, 10]


def test_nothing_to_tell_writes_nothing(tmp_path: Path):
    write_events(tmp_path / "tensorboard", [], [], [])
    assert not (tmp_path / "tensorboard").exists()


def test_what_disturbed_a_run_is_text_at_its_moment(tmp_path: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    struck = Disturbance(who="worker1", fault="kill:worker1@5s", struck_s=5.0, known_s=5.25)
    write_events(tmp_path, [], [], [], disturbances=[struck])
    events = EventAccumulator(str(tmp_path / "disturbances")).Reload()
    (event,) = events.Tensors("disturbances")
    (text,) = event.tensor_proto.string_val
    assert text.decode() == "at 5.0 s kill:worker1@5s struck, known after 0.2 s"
