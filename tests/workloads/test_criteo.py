"""logistic-criteo: one model from every format, by one worker or several; bad rows are told."""

import gzip
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.errors import DataError, SeatFailed, SpecError
from paceline.strategies.local import Single
from paceline.strategies.parameter_server.describe import PsAsync, PsSync
from paceline.testing.strategies import assert_parameters_close
from paceline.training.optim import Adagrad, Sgd
from paceline.workloads import WORKLOADS
from paceline.workloads.criteo import LogisticCriteo
from paceline.workloads.data.sparse import example_writer, generate, shape, text
from paceline.workloads.data.sparse.convert import convert
from paceline.workloads.order import Order
from tests.sharing import run
from tests.workloads.data.sparse.rows import made

QUIET = paceline.Record(tensorboard=False, monitor=False)
NUM_FEATURES = 3000
ROWS = made(400, NUM_FEATURES)
STREAMED = {"memory_bytes": 1}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """The same rows in every form."""
    folder = tmp_path_factory.mktemp("criteo")
    found = {name: folder / name for name in ("rows.tsv", "rows.tsv.gz", "rows.tfrecord", "out")}
    found["rows.tsv"].write_bytes(ROWS.text)
    found["rows.tsv.gz"].write_bytes(gzip.compress(ROWS.text))
    numbers = np.array(ROWS.numbers, np.uint32)
    records = b"".join(example_writer.framed(np.array(ROWS.labels), numbers))
    found["rows.tfrecord"].write_bytes(records)
    convert(found["rows.tsv"], found["out"], progress=lambda *_: None, data_dir=folder)
    return found


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(text, "_BLOCK_BYTES", 8000)


def spec_of(train: Path, strategy=None, **fields):
    workload_fields = {key: fields.pop(key) for key in list(fields) if key in WORKLOAD_FIELDS}
    workload = LogisticCriteo(
        train=train, num_features=NUM_FEATURES, data_dir=train.parent, **workload_fields
    )
    given = {"batch": 24, "cluster": Inline(), "record": QUIET, "dtype": "float64"}
    given |= {"optimizer": Sgd(lr=0.5), "epochs": 2}
    return paceline.RunSpec(workload=workload, strategy=strategy or Single(), **(given | fields))


WORKLOAD_FIELDS = {"memory_bytes", "bad_rows", "test", "test_rows"}


def test_every_format_gives_the_same_model(files, tmp_path):
    results = [run(spec_of(path), out=tmp_path) for path in files.values()]
    for other in results[1:]:
        assert_parameters_close(other, results[0], tolerance=1e-12)
    assert results[0].data == "rows.tsv, 360 rows"
    assert results[-1].data == "out, 360 rows, converted"
    assert results[0].worker_steps == 2 * (360 // 24)
    metrics = results[0].test_metrics
    larger = np.mean(ROWS.labels[360:])
    assert metrics["larger_class"] == pytest.approx(max(larger, 1 - larger))
    assert set(metrics) == {"accuracy", "loss", "auc", "larger_class"}


@pytest.mark.parametrize("name", ["rows.tsv", "rows.tsv.gz", "rows.tfrecord", "out"])
@pytest.mark.parametrize("memory", [{}, STREAMED], ids=["held", "streamed"])
def test_three_workers_see_the_rows_of_one_at_three_times_the_batch(
    name, memory, files, tmp_path, small_blocks
):
    alone = run(spec_of(files[name], **memory), out=tmp_path)
    together = spec_of(files[name], PsSync(), num_workers=3, **(memory | {"batch": 8}))
    assert_parameters_close(run(together, out=tmp_path), alone, tolerance=1e-9)


@pytest.mark.parametrize(
    ("optimizer", "cluster"), [(Sgd(lr=0.5), Local()), (Adagrad(lr=0.1), Inline())]
)
def test_the_whole_model_moves_where_asked_for_and_learns_the_same(
    optimizer, cluster, files, tmp_path
):
    fields = {"optimizer": optimizer, "num_workers": 2, "batch": 12, "cluster": cluster}
    rows, whole = (
        run(spec_of(files["out"], PsSync(sparse=sparse), **fields), out=tmp_path)
        for sparse in (True, False)
    )
    assert_parameters_close(whole, rows, tolerance=1e-9)
    steps = whole.workers[1].worker_steps
    assert whole.workers[1].sent_bytes == steps * 8 * (NUM_FEATURES + 1)
    assert rows.workers[1].sent_bytes < whole.workers[1].sent_bytes / 3


def test_one_worker_may_compute_the_whole_gradient_too(files, tmp_path):
    rows, whole = (
        run(spec_of(files["out"], Single(sparse=sparse)), out=tmp_path) for sparse in (True, False)
    )
    assert_parameters_close(whole, rows, tolerance=1e-9)


def broken(folder: Path, number: int, line: bytes | None) -> Path:
    lines = [*ROWS.lines]
    lines[number - 1] = lines[number - 1].rpartition(b"\t")[0] if line is None else line
    path = folder / "broken.tsv"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def with_field(number: int, column: int, value: bytes) -> bytes:
    fields = ROWS.lines[number - 1].split(b"\t")
    fields[column] = value
    return b"\t".join(fields)


BAD_LINES = {
    "39 columns": (300, None, "39 columns, not 40"),
    "a letter": (300, with_field(300, 3, b"1x"), "column I3: '1x' is not an integer"),
    "a label of 2": (300, with_field(300, 0, b"2"), "label '2' is neither 0 nor 1"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_bad_row_is_told_by_file_and_line_before_anything_starts(kind, tmp_path):
    number, line, told = BAD_LINES[kind]
    spec = spec_of(broken(tmp_path, number, line))
    with pytest.raises(DataError, match=rf"broken\.tsv, line 300: {told}.*bad_rows=skip"):
        run(spec, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    skipping = run(replace(spec, workload=replace(spec.workload, bad_rows="skip")), out=tmp_path)
    assert skipping.skipped_rows == 1
    assert f"1 bad rows were left out, such as {tmp_path}/broken.tsv, line 300" in str(
        skipping.warnings
    )


def test_a_bad_row_that_is_streamed_ends_the_run_with_file_and_line(tmp_path, small_blocks):
    number, line, told = BAD_LINES["a letter"]
    spec = spec_of(broken(tmp_path, number, line), **STREAMED)
    with pytest.raises(SeatFailed, match=rf"broken\.tsv, line 300: {told}"):
        run(spec, out=tmp_path)
    skipping = replace(spec, workload=replace(spec.workload, bad_rows="skip"))
    # once an epoch, and perhaps in what was read ahead of the end
    assert 2 <= run(skipping, out=tmp_path).skipped_rows <= 3
    together = replace(skipping, num_workers=3, batch=1, strategy=PsAsync())
    assert 2 <= run(together, out=tmp_path).skipped_rows <= 3


def test_broken_files_are_told_before_anything_starts(files, tmp_path):
    empty, cut, wrong = tmp_path / "empty.tsv", tmp_path / "cut.gz", tmp_path / "wrong.tfrecord"
    empty.touch()
    cut.write_bytes(files["rows.tsv.gz"].read_bytes()[:-3000])
    content = bytearray(files["rows.tfrecord"].read_bytes())
    content[100] ^= 1
    wrong.write_bytes(content)
    told = {
        empty: r"empty\.tsv: empty",
        cut: r"cut\.gz: cut short: the gzip stream breaks off after line \d+",
        wrong: r"wrong\.tfrecord, record 1: its checksum is wrong",
        tmp_path / "absent.tsv": r"absent\.tsv: no such file",
    }
    for path, message in told.items():
        with pytest.raises(DataError, match=message):
            run(spec_of(path), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_rows_to_train_on_must_be_given():
    with pytest.raises(SpecError, match=r"workload\.train = None: must be given"):
        run(paceline.RunSpec(workload=LogisticCriteo()))
    with pytest.raises(SpecError, match=r"workload\.train = 'x': workload\.source is generated"):
        WORKLOADS.build({"name": "logistic-criteo", "source": "generated", "train": "x"})


def test_a_vocabulary_decides_the_size_of_the_model(files, tmp_path):
    out = tmp_path / "out"
    known = convert(
        files["rows.tsv"], out, progress=lambda *_: None, numbering="vocabulary", data_dir=tmp_path
    )
    workload = LogisticCriteo(train=out)
    assert workload.num_weights() == known.num_features
    assert run(replace(spec_of(out), workload=workload), out=tmp_path).samples == 720
    few = replace(workload, num_features=known.num_features - 1)
    with pytest.raises(DataError, match=r"more than workload\.num_features"):
        run(replace(spec_of(out), workload=few), out=tmp_path)


def test_the_default_model_has_as_many_weights_as_the_reports():
    assert LogisticCriteo().model().weights.num_rows == 33_762_578


def test_the_second_epoch_of_generated_rows_has_the_same_rows_and_parses_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(generate, "_ROWS_A_FILE", 2000)
    workload = LogisticCriteo(
        source="generated", rows=3000, num_features=20_000, data_dir=tmp_path, memory_bytes=1
    )
    workload.prepare(lambda *_: None)
    order = Order(num_rows=3000, num_workers=2, batch=100, seed=0)
    epochs = 2 * order.steps_per_epoch
    kept = list(islice(workload.data("train", torch.float32).batches(order, 1), epochs))
    shutil.rmtree(workload._generated().kept)
    read = list(islice(workload.data("train", torch.float32).batches(order, 1), epochs))
    for ours, theirs in zip(kept, read, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other)


def test_generated_rows_are_learnt_and_named_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "_ROWS_A_FILE", 2000)
    monkeypatch.setattr(shape, "_NUM_TRIED", 5000)
    workload = LogisticCriteo(
        source="generated", rows=5000, num_features=20_000, data_dir=tmp_path / "cache"
    )
    seen = []
    spec = replace(spec_of(tmp_path), workload=workload, optimizer=None, batch=100)
    result = run(spec, out=tmp_path, watch=seen.append)
    assert seen[0].phase == "preparing"
    assert "generating rows" in seen[0].note
    assert result.data.startswith("generated rows, 3 files of ")
    assert "the planted model has an AUC of 0.7" in result.data
    assert result.test_metrics["auc"] > 0.6
    seen.clear()
    run(spec, out=tmp_path, watch=seen.append)
    assert seen[0].phase != "preparing"  # they are there


MEASURE = """
import sys
from itertools import islice
from pathlib import Path
import torch
from paceline.workloads.criteo import LogisticCriteo
from paceline.workloads.data.sparse import data
from paceline.workloads.order import Order

torch.set_num_threads(1)
data.WINDOW, data._MOST_WHOLE, data._RUN = 2048, 2048, 256
workload = LogisticCriteo(train=Path(sys.argv[1]), num_features=1000, memory_bytes=1,
                          data_dir=Path(sys.argv[2]))
rows = workload.data("train", torch.float32)
order = Order(num_rows=len(rows), num_workers=1, batch=500, seed=0)
most = 0
for batch in islice(rows.batches(order, 0), order.steps_per_epoch):
    status = Path("/proc/self/status").read_text()
    most = max(most, int(status.split("RssAnon:")[1].split()[0]))
print(len(rows), most)
"""


@pytest.mark.parametrize("is_converted", [False, True], ids=["streamed", "converted"])
def test_memory_does_not_grow_with_the_number_of_rows(is_converted, tmp_path):
    used = {}
    for times in (120, 480):  # blocks that are read ahead are all in use with the fewer, too
        path = tmp_path / f"rows{times}.tsv"
        path.write_bytes(ROWS.text * times)
        if is_converted:
            out = tmp_path / f"out{times}"
            convert(path, out, progress=lambda *_: None, data_dir=tmp_path)
            path = out
        command = [sys.executable, "-c", MEASURE, str(path), str(tmp_path)]
        # One arena: how threads share the heap's is chance, and larger than what is looked for.
        environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        num_rows, used[times] = map(int, done.stdout.split())
        assert num_rows == 360 * times
    grown_kb = used[480] - used[120]
    # Their text is 33,000 KB more, their arrays 22,500; what a heap has in pieces varies by 8,000.
    assert grown_kb < 11_000, used
