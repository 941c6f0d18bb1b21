"""What nodes do for commands that are no run: they are asked in words, and answer in words."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.cli.calibrate_nodes import _write
from paceline.comm.node_words import (
    CommandEnded,
    CommandMissing,
    CommandUsed,
    MeasureRates,
    RatesMeasured,
    StepsMeasured,
    WatchCommand,
)
from paceline.comm.spelling import BadWord, decode, encode
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import FROM_WORKERS
from paceline.comm.words import Word
from paceline.compute.rates import device_rates, rates_in
from paceline.engine import node_tasks
from paceline.errors import SpecError
from paceline.spec import RunSpec

SPEC = RunSpec.from_table(
    {"workload": {"name": "synthetic", "bytes": 120_000, "layers": 3}, "threads": 1}
)
MEASURE = MeasureRates(spec=SPEC.toml(), num_steps=2, device="mine", source="a test")


class Line:
    """Keeps what a seat says, as it arrives where it is read."""

    def __init__(self) -> None:
        self.said: list[Word] = []

    def send(self, word: Word) -> None:
        self.said.append(decode(encode(word), FROM_WORKERS))


def berth(task: str) -> Any:
    orders = Orders(
        entry="a:b", run_key="00", password="p", encrypts=False, medium="unix", threads=1,
        folder=None, spec=task,
    )  # fmt: skip
    return SimpleNamespace(line=Line(), ticket=SimpleNamespace(orders=orders))


def asked(task: Word) -> Any:
    return berth(encode(task).decode())


def test_a_command_is_watched_to_its_end():
    seat = asked(WatchCommand(command=[sys.executable, "-c", "exit(3)"], interval_s=10.0))
    assert node_tasks.watch(seat) == 0
    *samples, ended = seat.line.said
    assert ended == CommandEnded(3)
    assert [type(each) for each in samples] == [CommandUsed]
    assert samples[0].sample.processes == 1


def test_a_command_that_is_not_there_is_told():
    seat = asked(WatchCommand(command=["no-such-command"], interval_s=1.0))
    node_tasks.watch(seat)
    assert seat.line.said == [CommandMissing("No such file or directory")]


def test_a_workload_is_measured_into_a_file_that_replay_takes(tmp_path, capsys):
    seat = asked(MEASURE)
    assert node_tasks.calibrate(seat) == 0
    *steps, found = seat.line.said
    assert steps[0] == StepsMeasured(num_done=0, num_steps=5)
    assert isinstance(found, RatesMeasured)
    path = tmp_path / "mine.rates.toml"
    _write(path, SPEC, "node1", found.rates)
    read = device_rates(f"replay:{path}")
    assert (read.device, read.source) == ("mine", "a test, on node1")
    assert read.workloads == rates_in(found.rates, "it").workloads
    assert len(read.of("synthetic", "it").layers) == 3
    assert f"{path}: a step of 8 rows takes " in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["[", "device = 3", 'device = "d"\n[workloads]\na = 1', 'device = "d"\nworkloads = {}']
)
def test_what_is_no_file_of_rates_is_refused_with_the_node(tmp_path, text: str):
    with pytest.raises(SpecError, match="what node1 measured"):
        _write(tmp_path / "mine.rates.toml", SPEC, "node1", text)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("task", ["", '{"command": ["ls"]}', '{"kind":"start","start_s":1}'])
def test_a_task_that_is_none_is_refused(task: str):
    with pytest.raises(BadWord):
        node_tasks.watch(berth(task))
