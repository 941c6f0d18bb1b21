"""logistic-libsvm: rows of any length from text, streamed or converted; it learns."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
import torch

import paceline
from paceline.clusters.inline import Inline
from paceline.errors import DataError, SpecError
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing.strategies import assert_parameters_close
from paceline.training.optim import Adagrad
from paceline.workloads.data.sparse.convert import convert
from paceline.workloads.data.sparse.data import RowStream
from paceline.workloads.libsvm import LogisticLibsvm
from paceline.workloads.order import Order
from tests.sharing import run

QUIET = paceline.Record(tensorboard=False, monitor=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Rows of one to eight features; odd ones mean yes, even ones no, by their weight."""
    drawn = random.Random(0)
    lines = []
    for _ in range(600):
        indices = sorted(drawn.sample(range(1, 41), drawn.randint(1, 8)))
        values = [round(drawn.uniform(0.1, 2), 3) for _ in indices]
        pairs = list(zip(indices, values, strict=True))
        score = sum(value if index % 2 else -value for index, value in pairs)
        label = "+1" if score > 0 else "-1"
        lines.append(" ".join([label, *(f"{index}:{value}" for index, value in pairs)]))
    file = tmp_path / "rows.libsvm"
    file.write_text("\n".join(lines) + "\n")
    return file


def spec_of(path: Path, **fields):
    workload = LogisticLibsvm(train=path, data_dir=path.parent)
    given = {"batch": 30, "cluster": Inline(), "record": QUIET, "dtype": "float64"}
    given |= {"optimizer": Adagrad(lr=0.5), "epochs": 5}
    return paceline.RunSpec(workload=workload, **(given | fields))


def test_it_learns_and_knows_how_many_features_there_are(path, tmp_path):
    spec = spec_of(path)
    assert spec.workload.num_weights() == 40
    result = run(spec, out=tmp_path)
    assert result.test_accuracy > 0.9 > result.test_metrics["larger_class"]
    assert result.test_metrics["auc"] > 0.95


def test_held_converted_and_shared_by_three_it_is_the_same(path, tmp_path):
    wanted = run(spec_of(path), out=tmp_path)
    convert(path, tmp_path / "out", progress=lambda *_: None, data_dir=tmp_path)
    ours = run(spec_of(tmp_path / "out"), out=tmp_path)
    # values are kept as float32
    assert_parameters_close(ours, wanted, tolerance=1e-12)
    three = spec_of(path, strategy=PsSync(), num_workers=3, batch=10)
    assert_parameters_close(run(three, out=tmp_path), wanted, tolerance=1e-9)


def test_streamed_rows_do_not_tell_how_many_features_there_are(path, tmp_path):
    spec = spec_of(path)
    streamed = replace(spec, workload=replace(spec.workload, memory_bytes=1))
    with pytest.raises(DataError, match=r"give workload\.num_features"):
        run(streamed, out=tmp_path)
    told = replace(streamed, workload=replace(streamed.workload, num_features=40))
    assert run(told, out=tmp_path).test_accuracy > 0.9


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1 0:1", "index 0: indices begin at 1"),
        ("1 3:1 2:1", "index 2 comes after index 3"),
        ("2 1:1", "label '2' is neither 0 nor 1"),
    ],
)
def test_a_bad_row_is_told_by_file_and_line(line, told, path, tmp_path):
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(DataError, match=rf"rows\.libsvm, line 601: {told}"):
        run(spec_of(path), out=tmp_path)


def test_a_file_must_be_given():
    with pytest.raises(SpecError, match=r"workload\.train = None: must be given: a libsvm file"):
        run(paceline.RunSpec(workload=LogisticLibsvm()))


def streamed(path: Path, **fields) -> Iterator[list[torch.Tensor]]:
    """Batches of two rows that are read as they are needed."""
    workload = LogisticLibsvm(train=path, data_dir=path.parent, memory_bytes=1, **fields)
    data = workload.data("train", torch.float64)
    return data.batches(Order(num_rows=len(data), num_workers=1, batch=2, seed=3), 0)


def taken_until_told(batches: Iterator[list[torch.Tensor]]) -> tuple[int, str]:
    for number in count():
        try:
            next(batches)
        except DataError as error:
            return number, str(error)
    raise AssertionError


def test_small_batches_are_parsed_together_and_are_what_they_are_one_by_one(path, monkeypatch):
    together = list(islice(streamed(path), 280))
    monkeypatch.setattr(RowStream, "least_rows", 1)
    for ours, wanted in zip(together, streamed(path), strict=False):
        assert len(ours) == len(wanted)
        assert all(map(torch.equal, ours, wanted))


def test_a_bad_row_is_told_of_when_its_batch_is_taken(path, monkeypatch):
    lines = path.read_text().splitlines()
    lines[300] = "+1 0:1"
    path.write_text("\n".join(lines) + "\n")
    together = taken_until_told(streamed(path))
    skipped = [len(batch[2]) for batch in islice(streamed(path, bad_rows="skip"), 280)]
    assert "line 301" in together[1]
    assert [number for number, size in enumerate(skipped) if size == 1] == [together[0]]
    monkeypatch.setattr(RowStream, "least_rows", 1)
    assert taken_until_told(streamed(path)) == together


def test_rows_that_were_skipped_before_a_break_are_counted_once(path):
    lines = path.read_text().splitlines()
    for number in range(0, 600, 40):
        lines[number] = "+1 0:1"
    path.write_text("\n".join(lines) + "\n")
    workload = LogisticLibsvm(train=path, data_dir=path.parent, memory_bytes=1, bad_rows="skip")
    unbroken, before, after = (workload.data("train", torch.float64) for _ in range(3))
    order = Order(num_rows=len(before), num_workers=1, batch=2, seed=3)
    list(islice(unbroken.batches(order, 0), 250))
    list(islice(before.batches(order, 0), 131))
    assert before.counted() != unbroken.counted()
    after.load(before.state())
    list(islice(after.batches(order.continued(order.state(131)), 0), 119))
    assert after.counted() == unbroken.counted()
