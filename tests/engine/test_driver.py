"""A run from the outside: what is in its directory and in its result when it is over."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars
import pytest
import torch
from safetensors.torch import load_file

import paceline
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.engine.known import cores_of
from paceline.errors import SeatFailed, SpecError
from paceline.outcome.results import Result
from paceline.store.runs import RunDir
from paceline.strategies.local import Single, Solo
from paceline.system.cores import usable_cores
from paceline.testing import Flawed, Moons
from paceline.training.optim import Sgd
from paceline.workloads.base import Workload
from paceline.workloads.mnist import LenetMnist, LogisticMnist
from paceline.workloads.synthetic import Synthetic
from tests.paths import EXAMPLES

TENTH = LogisticMnist(subset="tenth")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run on the local cluster, with everything on."""
    spec = paceline.RunSpec(
        workload=TENTH,
        strategy=Solo(),
        num_workers=2,
        epochs=60,
        eval_every=400,
        record=paceline.Record(loss="all", monitor_s=0.1),
    )
    return paceline.run(spec, out=tmp_path_factory.mktemp("runs"))


def test_the_result_is_the_seal(finished):
    stored = json.loads(run_dir_of(finished).result.read_text())
    assert Result.from_table(stored) == finished
    assert finished.status == "finished"
    assert finished.data == "mnist-tenth, 6,000 rows, embedded"


def test_every_worker_wrote_rows_that_add_up(finished):
    rows = polars.read_parquet(run_dir_of(finished).steps)
    for worker in finished.workers:
        own = rows.filter(seat=worker.name)
        assert own["count"].sum() == worker.worker_steps == own["worker_steps"].max()
        assert own["samples"].max() == worker.samples
        assert own["time_s"].is_sorted()
        assert (own["loss_min"] <= own["loss_mean"]).all()
        assert (own["loss_mean"] <= own["loss_max"]).all()


def test_a_run_has_about_ten_rows_a_second_whatever_its_steps(finished):
    rows = polars.read_parquet(run_dir_of(finished).steps).filter(seat="worker0")
    assert finished.train_s is not None
    # one row at the start, one at each evaluation and one at the end come on top
    assert len(rows) <= 10 * finished.train_s + 2 + finished.workers[0].worker_steps // 400


def test_every_mini_batch_has_its_loss_where_asked_for(finished):
    losses = polars.read_parquet(run_dir_of(finished).losses)
    for worker in finished.workers:
        own = losses.filter(seat=worker.name)
        assert own["worker_step"].to_list() == list(range(1, worker.worker_steps + 1))


def test_accuracy_rises_over_the_evaluations(finished):
    evaluations = polars.read_parquet(run_dir_of(finished).evaluations)
    assert evaluations["progress"][:2].to_list() == [400, 800]
    assert evaluations["accuracy"][-1] == finished.test_accuracy
    assert evaluations["accuracy"][-1] > evaluations["accuracy"][0]


def test_the_node_was_watched(finished):
    (node,) = finished.nodes
    assert node.seats == ("worker0", "worker1")
    assert 5 < node.cpu_percent_mean <= 100 * os.cpu_count() * 1.1
    # two processes, each with its own copy of 6,000 images as float32
    assert node.memory_peak_bytes > 2 * 6000 * 784 * 4
    assert node.net_sent_bytes is None


def test_a_run_of_an_instant_has_measured_or_no_figures(tmp_path):
    spec = paceline.RunSpec(workload=Moons(), steps=10, record=paceline.Record(tensorboard=False))
    result = paceline.run(spec, out=tmp_path)
    (node,), (worker,) = result.nodes, result.workers
    rows = polars.read_parquet(run_dir_of(result).nodes)
    assert rows["phase"][:2].to_list() == ["starting", "training"]
    assert rows["memory_bytes"].drop_nulls().min() > 10_000_000
    assert 10_000_000 < node.memory_mean_bytes <= node.memory_peak_bytes
    # What its own thread used is part of what the process did.
    assert node.cpu_percent_peak >= node.cpu_percent_mean
    assert node.cpu_percent_mean >= 99 * worker.cpu_s / worker.train_s


def test_the_environment_is_kept(finished):
    environment = run_dir_of(finished).read_environment()
    assert environment["versions"]["torch"].startswith("2.")


def test_tensorboard_has_the_tags_people_look_for(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = run_dir_of(finished).tensorboard
    worker = EventAccumulator(str(folder / "worker0")).Reload()
    assert {"loss", "global_step/sec"} <= set(worker.Tags()["scalars"])
    evaluation = EventAccumulator(str(folder / "evaluation")).Reload()
    assert evaluation.Scalars("accuracy")[-1].value == pytest.approx(finished.test_accuracy)
    node = EventAccumulator(str(folder / "node0")).Reload()
    assert "node/cpu_percent" in node.Tags()["scalars"]


def test_nothing_but_the_named_files_stays(finished):
    names = {path.name for path in run_dir_of(finished).path.iterdir()}
    parquet = {"steps.parquet", "nodes.parquet", "evaluations.parquet", "losses.parquet"}
    others = {"spec.toml", "environment.json", "logs", "model.safetensors", "tensorboard"}
    assert names == parquet | others | {"result.json"}


def test_the_spec_that_was_kept_gives_the_same_run_again(finished, tmp_path):
    spec = paceline.RunSpec.read(run_dir_of(finished).spec)
    again = paceline.run(replace(spec, record=paceline.Record(tensorboard=False)), out=tmp_path)
    ours, theirs = (load_file(run_dir_of(each).model) for each in (finished, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_lenet_learns_on_the_embedded_tenth(tmp_path):
    # At its own rate the last epoch decides by how much it is above: which processor rounds how.
    spec = paceline.RunSpec(
        workload=LenetMnist(subset="tenth"), optimizer=Sgd(lr=0.02, momentum=0.9), epochs=6
    )
    assert paceline.run(spec, out=tmp_path).test_accuracy > 0.9


@pytest.mark.parametrize("cluster", [Inline(), Local()], ids=lambda each: each.name)
def test_single_equals_a_loop_written_by_hand(cluster, tmp_path):
    steps, batch = 40, 16
    spec = paceline.RunSpec(
        workload=Moons(), cluster=cluster, steps=steps, batch=batch, optimizer=Sgd(lr=0.1), seed=3
    )
    kept = load_file(run_dir_of(paceline.run(spec, out=tmp_path)).model)
    torch.manual_seed(3)
    model = Moons().model()
    data = Moons().data("train", torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = spec.completed().check_data().batches(0)
    for _ in range(steps):
        optimizer.zero_grad()
        Moons().loss(model, data.take(next(batches))).backward()
        optimizer.step()
    for name, values in model.state_dict().items():
        torch.testing.assert_close(kept[name], values, rtol=0, atol=1e-6)


class SlowToEvaluate(Workload):
    def model(self):
        return Moons().model()

    def data(self, split, dtype):
        return Moons().data(split, dtype)

    def metrics(self, model, batch):
        time.sleep(0.4)
        return super().metrics(model, batch)


def test_evaluations_are_off_the_training_clock(tmp_path):
    spec = paceline.RunSpec(
        workload=SlowToEvaluate(), cluster=Inline(), worker_steps=30, eval_every=10
    )
    began_s = time.monotonic()
    result = paceline.run(spec, out=tmp_path)
    elapsed_s = time.monotonic() - began_s
    assert result.evaluation_s >= 3 * 0.4
    assert result.train_s + result.evaluation_s + result.startup_s <= elapsed_s


@pytest.mark.parametrize(
    ("length", "worker_steps"),
    [
        ({"steps": 7}, 7),
        ({"worker_steps": 5}, 5),
        ({"samples": 100}, 13),  # 100 rows at 8 a step: the last step is begun
        ({"epochs": 2}, 120),
    ],
)
def test_each_way_to_say_how_long(length, worker_steps, tmp_path):
    spec = paceline.RunSpec(workload=Moons(), cluster=Inline(), **length)
    assert paceline.run(spec, out=tmp_path).worker_steps == worker_steps


def test_batch_all_takes_each_workers_whole_share(tmp_path):
    spec = paceline.RunSpec(
        workload=Moons(),
        strategy=Solo(),
        num_workers=3,
        batch="all",
        worker_steps=2,
        cluster=Inline(),
    )
    assert paceline.run(spec, out=tmp_path).batch_size == 160


def test_a_target_loss_ends_the_run_at_the_evaluation_that_reached_it(tmp_path):
    spec = paceline.RunSpec(
        workload=Moons(),
        cluster=Inline(),
        epochs=1000,
        target_loss=0.5,
        optimizer=Sgd(lr=0.2, momentum=0.9),
    )
    result = paceline.run(spec, out=tmp_path)
    assert result.test_loss <= 0.5
    assert 0 < result.seconds_to_target <= result.train_s
    assert result.global_steps % 60 == 0  # looked for once an epoch


def test_a_run_that_ends_without_a_finite_loss_fails(tmp_path):
    diverging = Sgd(lr=1e38)
    spec = paceline.RunSpec(
        workload=Moons(), cluster=Inline(), worker_steps=40, optimizer=diverging
    )
    with pytest.raises(SeatFailed, match=r"no training loss in the last tenth .* finite") as caught:
        paceline.run(spec, out=tmp_path)
    result = caught.value.result
    assert (result.status, result.final_loss) == ("failed", None)
    assert any("not a finite number" in warning for warning in result.warnings)


def test_losses_that_are_no_numbers_are_counted_and_left_out_of_the_mean(tmp_path):
    spec = paceline.RunSpec(workload=Flawed(), cluster=Inline(), epochs=1, batch=8, num_workers=1)
    result = paceline.run(spec, out=tmp_path)
    assert (result.refused_steps, result.global_steps, result.worker_steps) == (1, 59, 60)
    assert result.final_loss is not None
    told = " ".join(result.warnings)
    assert "1 of 60 worker steps were refused: a gradient was not finite (NaN: 1)" in told
    assert "1 of 60 training losses were not finite numbers" in told


def test_a_run_that_fails_for_refused_steps_counts_them(tmp_path):
    spec = paceline.RunSpec(
        workload=Flawed(flawed_rows=10_000), cluster=Inline(), worker_steps=500, most_refused=7
    )
    with pytest.raises(SeatFailed, match="7 steps in a row were refused") as caught:
        paceline.run(spec, out=tmp_path)
    result = caught.value.result
    assert (result.refused_steps, result.worker_steps) == (7, 7)
    assert result.workers[0].refused_because == {"NaN": 7}
    assert "7 of 7 worker steps were refused" in " ".join(result.warnings)


def test_sparse_features_train_through_the_table_of_rows(tmp_path):
    spec = paceline.RunSpec(
        workload=Synthetic(features=1000, nonzeros=5, rows=2000),
        cluster=Inline(),
        epochs=20,
        batch=50,
        optimizer=Sgd(lr=5.0),
    )
    result = paceline.run(spec, out=tmp_path)
    assert result.test_accuracy > 0.8  # a coin would have half of them right
    assert load_file(run_dir_of(result).model)["rows"].shape == (1000, 1)


def test_a_users_own_file_is_kept_with_the_run(tmp_path):
    file = EXAMPLES / "own_workload.py"
    spec = paceline.RunSpec.from_table({"workload": f"{file}:TwoMoons", "epochs": 1})
    run_dir = run_dir_of(paceline.run(spec, out=tmp_path))
    assert (run_dir.source / file.name).read_text() == file.read_text()


def test_a_class_of_an_interactive_session_needs_the_inline_cluster(tmp_path):
    code = (
        "import paceline\n"
        "from paceline.testing import Moons\n"
        "from paceline.clusters.inline import Inline\n"
        "class Mine(paceline.Workload):\n"
        "    def model(self): return Moons().model()\n"
        "    def data(self, split, dtype): return Moons().data(split, dtype)\n"
        "try: paceline.run(paceline.RunSpec(workload=Mine()), out='a')\n"
        "except paceline.PacelineError as error: print(error)\n"
        "print(paceline.run(paceline.RunSpec(workload=Mine(), cluster=Inline()), out='b').status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "define it in a file, or use the inline cluster" in done.stdout
    assert done.stdout.splitlines()[-1] == "finished"
    assert not (tmp_path / "a").exists()


def test_wrong_specs_start_and_leave_nothing(tmp_path):
    wrong = paceline.RunSpec(workload=Moons(), strategy=Single(), num_workers=2, batch=0)
    with pytest.raises(SpecError) as caught:
        paceline.run(wrong, out=tmp_path / "runs")
    assert {problem.field for problem in caught.value.problems} == {"batch"}
    assert not (tmp_path / "runs").exists()


class FailsToEvaluate(SlowToEvaluate):
    most_rows: int = 100

    def metrics(self, model, batch):
        if len(batch[0]) > self.most_rows:
            raise ValueError("no metrics today")
        return super().metrics(model, batch)


def test_a_metric_that_always_fails_is_told_before_training(tmp_path):
    spec = paceline.RunSpec(workload=FailsToEvaluate(most_rows=0), cluster=Inline(), steps=5)
    with pytest.raises(SeatFailed, match="no metrics today") as caught:
        paceline.run(spec, out=tmp_path)
    assert caught.value.result.worker_steps == 0


def test_a_metric_that_fails_does_not_cost_the_model(tmp_path):
    spec = paceline.RunSpec(workload=FailsToEvaluate(), cluster=Inline(), steps=5)
    with pytest.raises(SeatFailed, match="no metrics today") as caught:
        paceline.run(spec, out=tmp_path)
    assert load_file(run_dir_of(caught.value.result).model)
    assert caught.value.result.test_accuracy is None


class LosesGradients(SlowToEvaluate):
    def loss(self, model, batch):
        model.zero_grad()
        return super().loss(model, batch)


def test_a_workload_that_moves_its_gradients_is_told_so(tmp_path):
    spec = paceline.RunSpec(workload=LosesGradients(), cluster=Inline(), steps=5)
    with pytest.raises(SeatFailed, match="Do not call zero_grad"):
        paceline.run(spec, out=tmp_path)


def test_a_field_that_is_none_stays_none(tmp_path):
    class Mine(SlowToEvaluate):
        limit: int | None = 5

    spec = paceline.RunSpec(workload=Mine(limit=None), cluster=Inline())
    assert spec.checked().workload.limit is None
    with pytest.raises(SpecError, match="limit = None"):
        spec.toml()


def test_inline_uses_as_many_threads_as_asked_for_and_puts_it_back(tmp_path):
    before = torch.get_num_threads()
    seen = []

    class Looks(SlowToEvaluate):
        def loss(self, model, batch):
            seen.append(torch.get_num_threads())
            return super().loss(model, batch)

    spec = paceline.RunSpec(workload=Looks(), cluster=Inline(), steps=1, threads=before + 1)
    paceline.run(spec, out=tmp_path)
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_a_disk_that_fills_up_is_a_failed_run_that_is_sealed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", small], check=True)
    try:
        spec = paceline.RunSpec(
            workload=Moons(),
            seconds=60,
            record=paceline.Record(loss="all", interval_s=0.001, tensorboard=False),
        )
        with pytest.raises(SeatFailed, match="No space left on device"):
            paceline.run(spec, out=small)
        (run,) = small.iterdir()
        assert json.loads((run / "result.json").read_text())["status"] == "failed"
    finally:
        subprocess.run(["umount", small], check=True)


def run_dir_of(result):
    return RunDir(Path(result.run))


def test_a_script_without_a_guard_is_refused_in_its_seats(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import paceline\n"
        "from paceline.testing import Moons\n"
        "class Mine(paceline.Workload):\n"
        "    def model(self): return Moons().model()\n"
        "    def data(self, split, dtype): return Moons().data(split, dtype)\n"
        "paceline.run(paceline.RunSpec(workload=Mine()), out='runs')\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'put the call under if __name__ == "__main__":' in done.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 1


class WithoutAccuracy(SlowToEvaluate):
    def metrics(self, model, batch):
        return {"loss": self.loss(model, batch)}


class PromisesAccuracy(WithoutAccuracy):
    better = {"accuracy": "higher"}  # noqa: RUF012 - as a user writes it


def test_a_target_that_is_never_measured_is_refused(tmp_path):
    workload = WithoutAccuracy()
    spec = paceline.RunSpec(workload=workload, cluster=Inline(), steps=10, target_accuracy=0.5)
    with pytest.raises(SpecError, match=r"accuracy>=0.5.*\(choices: loss\)"):
        paceline.run(spec, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_target_that_was_promised_and_is_never_measured_is_an_error_before_training(tmp_path):
    workload = PromisesAccuracy()
    spec = paceline.RunSpec(workload=workload, cluster=Inline(), steps=10, target_accuracy=0.5)
    with pytest.raises(SeatFailed, match=r"accuracy>=0.5.*\(choices: loss\)") as failure:
        paceline.run(spec, out=tmp_path)
    assert failure.value.result.worker_steps == 0


def test_a_reached_target_is_evaluated_once(tmp_path):
    spec = paceline.RunSpec(
        workload=Moons(), cluster=Inline(), epochs=50, target_loss=10.0, eval_every=7
    )
    result = paceline.run(spec, out=tmp_path)
    evaluations = polars.read_parquet(run_dir_of(result).evaluations)
    assert evaluations["progress"].to_list() == [7] == [result.global_steps]


@pytest.mark.parametrize(("asked", "are_capped"), [(1e6, True), (1e-3, False), (None, True)])
def test_a_node_has_no_more_cores_than_there_are(asked, are_capped):
    cluster = {"name": "emulated"} if asked is None else {"name": "emulated", "cpus": asked}
    spec = paceline.RunSpec.from_table({"workload": "synthetic", "cluster": cluster})
    cores = cores_of(spec, ["node0"], are_capped=are_capped)
    assert cores == {"node0": usable_cores()}
