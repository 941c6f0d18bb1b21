"""Whole runs of replayed compute: real exchange, no data, no loss, virtual time."""

import dataclasses
import math
from pathlib import Path

import polars
import pytest

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.compute.rates import device_rates
from paceline.errors import SpecError
from paceline.parts import Record
from paceline.spec import RunSpec
from paceline.store import curves
from paceline.store.runs import RunDir
from paceline.store.stored import StoredRun
from paceline.strategies.all_reduce.describe import Ddp, Ring
from paceline.strategies.local import Single
from paceline.strategies.parameter_server.describe import PsAsync, PsSync
from paceline.workloads.synthetic import Synthetic

STEP_S = 0.02
NUM_BYTES = 400_000
WORKLOAD = Synthetic(bytes=NUM_BYTES)
STRATEGIES = [(Single(), 1), (Ring(bucket_bytes=100_000), 2), (PsSync(), 2), (PsAsync(), 2)]


@pytest.fixture
def device(tmp_path: Path) -> str:
    path = tmp_path / "timer.toml"
    text = 'device = "timer"\n[workloads.synthetic]\nbatch = 8\nrows_per_s = 400\n'
    path.write_text(text + "num_rows = 1_000\n")
    return f"replay:{path}"


def spec_of(device: str, strategy=None, num_workers: int = 1, **fields) -> RunSpec:
    return RunSpec(
        workload=WORKLOAD,
        strategy=strategy or Single(),
        cluster=Inline(),
        num_workers=num_workers,
        device=device,
        **({"worker_steps": 5} | fields),
    )


@pytest.mark.parametrize(("strategy", "num_workers"), STRATEGIES, ids=str)
def test_every_strategy_steps_exchanges_and_says_what_it_is(
    tmp_path, device, strategy, num_workers
):
    result = paceline.run(spec_of(device, strategy, num_workers), out=tmp_path)
    assert result.status == "finished"
    assert (result.compute, result.device, result.dilation) == ("replayed", device, 1.0)
    assert result.label == "replayed compute (timer)"
    assert result.worker_steps == 5 * num_workers
    assert result.train_s >= 5 * STEP_S
    assert result.final_loss is None
    assert result.test_accuracy is None
    assert not any("loss" in warning for warning in result.warnings)
    for worker in result.workers:
        assert worker.device_busy_s == pytest.approx(5 * STEP_S)
        assert worker.refused in (0, None)
    for server in result.servers:
        assert server.updates == result.global_steps
    if num_workers > 1:
        assert result.workers[0].sent_bytes >= 5 * NUM_BYTES * 0.9
    assert 0 < result.nodes[0].device_busy_percent <= 100


@pytest.mark.thorough
def test_torchs_own_engine_is_replayed_inside_of_its_back_propagation(tmp_path, device):
    spec = dataclasses.replace(spec_of(device, Ddp(bucket_bytes=100_000), 2), cluster=Local())
    result = paceline.run(spec, out=tmp_path)
    assert result.worker_steps == 10
    assert len(result.workers[0].buckets) > 1
    assert result.train_s >= 5 * STEP_S


def test_rows_have_no_loss_and_nothing_is_kept_that_nobody_learnt(tmp_path, device):
    record = Record(loss="all", monitor_s=0.05)
    result = paceline.run(spec_of(device, record=record), out=tmp_path)
    run = RunDir(Path(result.run))
    rows = polars.read_parquet(run.steps)
    assert rows["loss_mean"].dtype == polars.Float64
    assert rows["loss_mean"].null_count() == len(rows) > 0
    assert (curves.usage(StoredRun.read(run))["device_busy_percent"] > 0).any()
    assert not run.model.exists()
    assert not run.losses.exists()
    assert not run.evaluations.exists()
    assert (run.source / "timer.toml").exists()
    assert "replayed compute reads no data" in result.data


def test_no_data_set_needs_to_be_there(tmp_path, device):
    path = Path(device.removeprefix("replay:"))
    path.write_text(path.read_text().replace("synthetic", "resnet20-cifar10"))
    spec = RunSpec.from_table(
        {
            "workload": {"name": "resnet20-cifar10", "data_dir": str(tmp_path / "nowhere")},
            "cluster": "inline",
            "device": device,
            "batch": 8,
            "steps": 2,
        }
    )
    assert paceline.run(spec, out=tmp_path).worker_steps == 2


def test_a_dilated_run_takes_longer_and_records_virtual_seconds(tmp_path, device):
    spec = spec_of(device, PsSync(), 2, dilation=4.0)
    result = paceline.run(spec, out=tmp_path)
    assert result.label == "replayed compute (timer), dilated 4x"
    rows = polars.read_parquet(RunDir(Path(result.run)).steps)
    for worker in result.workers:
        assert worker.device_busy_s == pytest.approx(5 * STEP_S)
        own = rows.filter(seat=worker.name)
        spans_s = own.select("load_s", "compute_s", "exchange_s").sum().row(0)
        assert worker.compute_s >= 5 * STEP_S
        assert sum(spans_s) <= worker.train_s
        assert own["time_s"].max() <= worker.train_s


def test_seconds_are_virtual(tmp_path, device):
    spec = spec_of(device, worker_steps=None, seconds=5 * STEP_S, dilation=2.0)
    result = paceline.run(spec, out=tmp_path)
    assert result.train_s >= 5 * STEP_S
    assert result.worker_steps <= 7


def test_epochs_are_those_of_the_files_rows(tmp_path, device):
    path = Path(device.removeprefix("replay:"))
    path.write_text(path.read_text().replace("1_000", "32"))
    result = paceline.run(spec_of(device, worker_steps=None, epochs=2), out=tmp_path)
    assert result.worker_steps == 8


class TestWhatDoesNotGoTogether:
    def told(self, **table) -> str:
        with pytest.raises(SpecError) as caught:
            RunSpec.from_table({"workload": "resnet50-cifar10", **table})
        return str(caught.value)

    def test_dilation_without_replay(self):
        assert "dilation = 2.0: real compute cannot be slowed" in self.told(dilation=2)

    @pytest.mark.parametrize("dilation", [0.5, math.inf, math.nan])
    def test_a_dilation_that_is_none(self, dilation):
        assert "dilation" in self.told(dilation=dilation, device="replay:k80")

    def test_an_unknown_device(self):
        assert "replay:k80" in self.told(device="gpu")

    @pytest.mark.parametrize("field", ["eval_every", "target_accuracy", "target_loss"])
    def test_evaluations(self, field):
        told = self.told(device="replay:k80", **{field: 1})
        assert f"{field} = 1" in told
        assert "no accuracy" in told

    def test_a_target_on_any_metric(self):
        told = self.told(device="replay:k80", target="mae<=0.2")
        assert "target = ['mae<=0.2']: replayed compute trains nothing" in told

    def test_another_shape_than_was_measured(self):
        workload = {"name": "resnet50-cifar10", "num_classes": 100}
        told = self.told(device="replay:k80", workload=workload)
        assert "workload.num_classes = 100: replay:k80 was measured with 1000" in told


def test_the_workload_takes_the_shape_that_was_measured():
    spec = RunSpec.from_table({"workload": "vgg16-cifar10", "device": "replay:k80"})
    assert (spec.workload.num_classes, spec.workload.image_size) == (1000, 224)
    assert RunSpec.from_table(spec.table()) == spec
    assert spec.num_rows() == 1_281_167
    assert device_rates("replay:k80").device == "k80"
