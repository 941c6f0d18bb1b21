"""A result's figures follow from the rows that the processes wrote, and from nothing else."""

import dataclasses
import json
import math
import struct
from pathlib import Path
from typing import Any

import polars
import pytest

from paceline.clusters.base import LinkReport
from paceline.engine.conductor import Conductor
from paceline.engine.ensemble import RunToLead
from paceline.errors import StoreError
from paceline.outcome.accounts import WorkerAccount
from paceline.outcome.facts import Facts
from paceline.outcome.outcome import Outcome
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.runs import RunDir, create_run
from paceline.store.sealing import seal, seal_abandoned
from paceline.workloads.order import Order

Row = dict[str, Any]
NO_LOSS = dict.fromkeys(("loss_mean", "loss_min", "loss_max", "loss_variance"))


def facts_of(num_workers: int = 1, *, tensorboard: bool = False) -> Facts:
    return Facts(
        workload="logistic-mnist",
        strategy="single",
        cluster="local",
        meaning="one worker",
        num_workers=num_workers,
        batch_size=10,
        seed=3,
        target=None,
        seats={"node0": [f"worker{index}" for index in range(num_workers)]},
        num_cores={"node0": 2.0},
        tensorboard=tensorboard,
    )


def step_row(time_s: float, steps: int, count: int, loss: float, **others: Any) -> Row:
    return {
        "time_s": time_s,
        "worker_steps": steps,
        "samples": steps * 10,
        "global_steps": steps,
        "count": count,
        "load_s": 0.01,
        "compute_s": 0.02,
        "exchange_s": 0.03,
        "loss_mean": loss,
        "loss_min": loss,
        "loss_max": loss,
        "loss_variance": 0.0,
    } | others


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    facts = facts_of().table()
    return create_run(tmp_path, "w-single", spec="seed = 3\n", facts=facts, environment={})


def write(run: RunDir, seat: str, *rows: Row, end: str = "\n") -> None:
    text = "\n".join(json.dumps(row) for row in rows)
    run.seat_records(seat).write_text(text + end)


def ten_rows() -> list[Row]:
    """A second of 100 steps; the loss of the last ten is 0.5."""
    return [step_row(i / 10, 10 * i, 10, 0.5 if i == 10 else 2.0 + i) for i in range(1, 11)]


def test_final_loss_is_the_mean_over_the_last_tenth_of_the_steps(run: RunDir):
    write(run, "worker0", *ten_rows())
    assert seal(run, facts_of(), Outcome()).final_loss == 0.5


def test_final_loss_weighs_rows_by_their_steps_and_takes_all_workers(run: RunDir):
    write(run, "worker0", step_row(1, 95, 95, 9.0), step_row(2, 97, 2, 1.0), step_row(3, 100, 3, 2))
    write(run, "worker1", step_row(1, 180, 180, 9.0), step_row(3, 200, 20, 3.0))
    # Of worker0's first row five steps are within its last tenth, of worker1's none.
    result = seal(run, facts_of(2), Outcome())
    assert result.final_loss == pytest.approx((5 * 9 + 2 * 1 + 3 * 2 + 20 * 3) / 30)


@pytest.mark.parametrize("num_steps", [1, 9, 10, 11, 30, 70, 1000])
def test_final_loss_of_a_row_a_step_is_never_more_than_a_tenth(run: RunDir, num_steps: int):
    num_early = num_steps - math.ceil(num_steps / 10)
    losses = [math.nan] * num_early + [1.0] * (num_steps - num_early)
    write(run, "worker0", *(step_row(i / 9, i, 1, loss) for i, loss in enumerate(losses, 1)))
    assert seal(run, facts_of(), Outcome()).final_loss == pytest.approx(1.0)


def test_rates_are_amounts_over_the_training_time(run: RunDir):
    write(run, "worker0", *ten_rows())
    write(run, "worker1", step_row(0.2, 20, 20, 1.0), step_row(0.5, 50, 30, 1.0))
    result = seal(run, facts_of(2), Outcome())
    assert (result.global_steps, result.worker_steps, result.samples) == (100, 150, 1500)
    assert result.train_s == 1.0
    assert result.steps_per_s == pytest.approx(100)
    assert result.worker_steps_per_s == pytest.approx(150)
    assert result.samples_per_s == pytest.approx(1500)
    assert [each.worker_steps for each in result.workers] == [100, 50]
    assert result.workers[0].load_s == pytest.approx(0.1)
    assert result.workers[0].compute_s == pytest.approx(0.2)
    assert result.workers[0].exchange_s == pytest.approx(0.3)


def test_the_steady_rate_leaves_out_the_first_tenth_of_the_time(run: RunDir):
    rows = [step_row(0.5, 1, 1, 1.0), step_row(1.0, 2, 1, 1.0), step_row(10.0, 902, 900, 1.0)]
    write(run, "worker0", *rows)
    result = seal(run, facts_of(), Outcome())
    assert result.samples_per_s == pytest.approx(902)
    assert result.steady_samples_per_s == pytest.approx(1000)


def test_one_row_is_too_little_for_a_steady_rate(run: RunDir):
    write(run, "worker0", step_row(1.0, 2, 2, 1.0))
    assert seal(run, facts_of(), Outcome()).steady_samples_per_s is None


def test_what_a_worker_said_at_its_end_goes_before_its_rows(run: RunDir):
    write(run, "worker0", *ten_rows())
    said = WorkerAccount(
        train_s=1.25,
        worker_steps=101,
        samples=1010,
        global_steps=101,
        final_loss=0.4,
        sent_bytes=7,
        received_bytes=8,
    )
    result = seal(run, facts_of(), Outcome(totals={"worker0": said}))
    assert (result.train_s, result.global_steps, result.samples) == (1.25, 101, 1010)
    assert (result.workers[0].sent_bytes, result.workers[0].received_bytes) == (7, 8)


def node_rows(*rows: tuple[str, float, float | None, int | None, int]) -> list[Row]:
    return [
        {
            "time_s": time_s,
            "phase": phase,
            "cpu_percent": cpu_percent,
            "memory_bytes": memory_bytes,
            "disk_read_bytes": disk_bytes,
            "disk_written_bytes": None,
        }
        for phase, time_s, cpu_percent, memory_bytes, disk_bytes in rows
    ]


def test_node_figures_are_of_the_training_phase_only(run: RunDir):
    rows = node_rows(
        ("starting", 0.0, 999, 9_000_000, 0),
        ("starting", 0.0, 999, 2000, 100),  # the moment at which training begins
        ("training", 1.0, 150, 1000, 110),
        ("training", 2.0, 50, 2000, 130),
        ("evaluating", 2.0, 999, 3000, 10_000),
        ("training", 4.0, 100, 3000, 10_005),
        ("ending", 4.0, 999, None, 99_999),
    )
    write(run, "node0", *rows)
    (node,) = seal(run, facts_of(), Outcome()).nodes
    assert node.seats == ("worker0",)
    assert (node.cpu_percent_mean, node.cpu_percent_peak) == (100, 150)
    assert node.cpu_node_percent_mean == 50  # of its two cores
    assert (node.memory_mean_bytes, node.memory_peak_bytes) == (2200, 3000)
    assert node.disk_read_bytes == 10 + 20 + 5
    assert node.disk_written_bytes is None
    assert node.net_sent_bytes is None


def trained(**fields: Any) -> Outcome:
    """A worker that was busy for two tenths of a second."""
    said = {"train_s": 0.2, "worker_steps": 2, "samples": 20, "global_steps": 2, "final_loss": 1.0}
    return Outcome(totals={"worker0": WorkerAccount(**{**said, **fields})})


def test_a_short_run_has_what_its_seats_counted_themselves(run: RunDir):
    rows = node_rows(
        ("starting", 0.0, 999, 4000, 0),
        ("training", 0.2, 45, 6000, 0),  # in ticks: it says little of so short a time
        ("ending", 0.2, 999, None, 0),
    )
    write(run, "node0", *rows)
    outcome = trained(process_cpu_s=0.19, own_peak_bytes=7000)
    (node,) = seal(run, facts_of(), outcome).nodes
    assert node.cpu_percent_mean == node.cpu_percent_peak == pytest.approx(95)
    assert (node.memory_mean_bytes, node.memory_peak_bytes) == (5000, 7000)
    assert node.disk_read_bytes == 0


def test_children_that_only_a_monitor_sees_count_where_it_had_time_enough(run: RunDir):
    rows = node_rows(("starting", 0.0, 999, 4000, 0), ("training", 2.0, 180, 6000, 0))
    write(run, "node0", *rows)
    outcome = trained(train_s=2.0, process_cpu_s=1.9, own_peak_bytes=5000)
    (node,) = seal(run, facts_of(), outcome).nodes
    assert (node.cpu_percent_mean, node.cpu_percent_peak) == (180, 180)
    assert node.memory_peak_bytes == 6000


def test_where_nothing_was_measured_of_a_node_nothing_is_told(run: RunDir):
    rows = node_rows(
        ("starting", 0.0, 999, 0, 0),
        ("training", 0.01, None, None, 0),
        ("ending", 0.01, 999, None, 0),
    )
    write(run, "node0", *rows)
    (node,) = seal(run, facts_of(), trained(process_cpu_s=None)).nodes
    assert (node.cpu_percent_mean, node.cpu_percent_peak) == (None, None)
    assert (node.memory_mean_bytes, node.memory_peak_bytes) == (None, None)


def test_what_was_not_measured_is_null_never_zero(run: RunDir):
    result = seal(run, facts_of(), Outcome(status="failed", reason="worker0: no"))
    stored = run.read_result()
    for key in ("train_s", "steps_per_s", "samples_per_s", "worker_steps_per_s", "final_loss"):
        assert stored[key] is None
    for key in ("global_steps", "test_accuracy", "test_loss", "startup_s", "steal_s", "data"):
        assert stored[key] is None
    assert stored["workers"][0]["compute_s"] is None
    assert stored["workers"][0]["sent_bytes"] is None
    measured = {key for key, value in stored["nodes"][0].items() if value is not None}
    assert measured == {"name", "seats", "num_cores"}  # known before
    assert not run.steps.exists()
    assert not run.nodes.exists()
    assert not run.evaluations.exists()
    assert result.warnings == ()


def test_without_rows_the_totals_still_make_a_result(run: RunDir):
    said = WorkerAccount(
        train_s=2.0,
        worker_steps=10,
        samples=100,
        global_steps=10,
        final_loss=0.25,
    )
    result = seal(run, facts_of(), Outcome(totals={"worker0": said}))
    assert (result.final_loss, result.samples_per_s) == (0.25, 50)
    assert result.steady_samples_per_s is None


def test_a_worker_that_shares_nothing_has_no_global_steps(run: RunDir):
    write(run, "worker0", *(row | {"global_steps": None} for row in ten_rows()))
    result = seal(run, facts_of(), Outcome())
    assert result.global_steps is None
    assert result.steps_per_s is None
    assert result.worker_steps_per_s == pytest.approx(100)
    assert polars.read_parquet(run.steps)["global_steps"].null_count() == 10


@pytest.mark.parametrize("end", ["", '\n{"time_s":1.1,"wor', '\n{"time_s"', "\n\0\0"])
def test_a_last_line_that_was_cut_off_is_left_out(run: RunDir, end: str):
    write(run, "worker0", *ten_rows(), end=end)
    assert seal(run, facts_of(), Outcome()).worker_steps == 100


def test_a_script_that_says_no_loss_and_fails_is_not_said_to_have_a_bad_one(run: RunDir):
    write(run, "worker0", *({**row, "loss_mean": None} for row in ten_rows()))
    assert seal(run, facts_of(), Outcome()).warnings == ()


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_null_with_a_warning(run: RunDir, loss: float):
    write(run, "worker0", *ten_rows()[:-1], step_row(1.0, 100, 10, loss))
    evaluation = {"time_s": 1.0, "progress": 100, "accuracy": 0.1, "loss": loss}
    result = seal(run, facts_of(tensorboard=True), Outcome(evaluations=[evaluation]))
    assert result.final_loss is None
    assert result.warnings == ("the loss is not a finite number",)
    assert (result.test_accuracy, result.test_loss) == (0.1, None)
    assert result.test_metrics == {"accuracy": 0.1}
    assert "NaN" not in run.result.read_text()
    assert "Infinity" not in run.result.read_text()


def test_a_diverged_loss_is_told_without_rows_too(run: RunDir):
    said = WorkerAccount(
        train_s=2.0,
        worker_steps=10,
        samples=100,
        global_steps=10,
        final_loss=float("nan"),
    )
    result = seal(run, facts_of(), Outcome(totals={"worker0": said}))
    assert result.final_loss is None
    assert len(result.warnings) == 1


def test_the_last_evaluation_is_the_results(run: RunDir):
    evaluations = [
        {"time_s": 1.0, "progress": 50, "accuracy": 0.5, "loss": 2.0, "top5": 0.7},
        {"time_s": 2.0, "progress": 100, "accuracy": 0.6, "loss": 1.0, "top5": 0.8},
    ]
    outcome = Outcome(evaluations=evaluations, seconds_to_target=2.0, evaluation_s=0.5)
    result = seal(run, facts_of(), outcome)
    assert (result.test_accuracy, result.test_loss) == (0.6, 1.0)
    assert result.test_metrics == {"accuracy": 0.6, "loss": 1.0, "top5": 0.8}
    assert polars.read_parquet(run.evaluations).to_dicts() == evaluations


def test_rows_are_kept_as_parquet_and_the_scaffolding_goes(run: RunDir):
    write(run, "worker0", *ten_rows())
    write(run, "node0", *node_rows(("training", 1.0, 150, 1000, 110)))
    result = seal(run, facts_of(tensorboard=True), Outcome())
    assert polars.read_parquet(run.steps).to_dicts() == [
        {"seat": "worker0"} | row for row in ten_rows()
    ]
    assert polars.read_parquet(run.nodes)["node"].to_list() == ["node0"]
    assert sorted(path.name for path in run.path.iterdir()) == [
        "environment.json",
        "logs",
        "nodes.parquet",
        "result.json",
        "spec.toml",
        "steps.parquet",
        "tensorboard",
    ]
    assert sorted(path.name for path in run.tensorboard.iterdir()) == ["node0", "worker0"]
    assert Result.from_table(run.read_result()) == result


def test_every_loss_is_kept_where_asked_for(run: RunDir):
    run.seat_losses("worker0").write_bytes(
        struct.pack("<3f", 3, 2, 1) + b"\1\2"
    )  # killed in mid-write
    run.seat_losses("worker1").write_bytes(struct.pack("<2f", 5, 4))
    seal(run, facts_of(2), Outcome())
    assert polars.read_parquet(run.losses).rows() == [
        ("worker0", 1, 3.0),
        ("worker0", 2, 2.0),
        ("worker0", 3, 1.0),
        ("worker1", 1, 5.0),
        ("worker1", 2, 4.0),
    ]


def test_an_abandoned_run_is_sealed_from_what_is_there(run: RunDir):
    run.let_go()
    write(run, "worker0", *ten_rows(), end='\n{"time_s":1.1')
    result = seal_abandoned(run)
    assert result.status == "interrupted"
    assert result.reason == "its driver was killed"
    assert (result.workload, result.worker_steps, result.final_loss) == ("logistic-mnist", 100, 0.5)
    assert run.is_sealed


def test_an_abandoned_run_still_says_what_is_wrong_with_its_links(run: RunDir):
    spec = RunSpec.from_table({"workload": "logistic-mnist", "steps": 5})
    order = Order(num_rows=50, num_workers=1, batch=10, seed=3)
    outcome = Outcome()
    to_lead = RunToLead(
        spec=spec, order=order, lines={}, seats=(), run_dir=run, outcome=outcome, began_s=0.0
    )
    conductor = Conductor(to_lead)
    link = LinkReport(node="node0", asked=1e9, sent=8e8, received=1e9)
    for _ in range(2):  # the driver tells what it knows again and again
        conductor.note_nodes([link], ["node0's link sent 800 Mbit/s"])
    assert outcome.warnings == ["node0's link sent 800 Mbit/s"]
    run.let_go()
    write(run, "worker0", *ten_rows())
    result = seal_abandoned(run)
    assert result.warnings == ("node0's link sent 800 Mbit/s",)
    assert result.nodes[0].link_sent_bits_per_s == 8e8


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_only_a_run_that_finished_is_judged(run: RunDir, status: Any):
    write(run, "worker0", *ten_rows())
    assert seal(run, facts_of(), Outcome(status=status, reason="no")).verdict is None


def test_a_run_that_finished_is_judged(run: RunDir):
    write(run, "worker0", *ten_rows())
    assert seal(run, facts_of(), Outcome()).verdict is not None


def test_a_sealed_run_cannot_be_sealed_as_abandoned(run: RunDir):
    write(run, "worker0", *ten_rows())
    seal(run, facts_of(), Outcome())
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    with pytest.raises(StoreError):
        seal_abandoned(run)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def replayed(**others: Any) -> Facts:
    return dataclasses.replace(facts_of(), compute="replayed", device="replay:k80", **others)


class TestReplayedCompute:
    def test_rows_without_a_loss_give_a_result_without_one(self, run: RunDir):
        write(run, "worker0", *(row | NO_LOSS for row in ten_rows()))
        result = seal(run, replayed(notes=["scaled"]), Outcome(status="interrupted"))
        assert result.final_loss is None
        assert result.warnings == ("scaled",)
        assert result.label == "replayed compute (k80)"
        assert not result.host_limited

    def test_an_abandoned_one_still_says_what_it_was(self, tmp_path: Path):
        facts = replayed(dilation=4.0).table()
        run = create_run(tmp_path, "w-single", spec="", facts=facts, environment={})
        write(run, "worker0", *(row | NO_LOSS for row in ten_rows()))
        run.let_go()
        result = seal_abandoned(run)
        assert result.label == "replayed compute (k80), dilated 4x"
        assert result.warnings == ()

    @pytest.mark.parametrize(
        ("counted", "reason"),
        [
            ({"late_steps": 6}, "6 % of the steps were computed late"),
            ({"ready_s": 0.3}, "worker0 waited for a core 30 % of the time"),
            (
                {"ready_s": 0.0, "most_ready_s": 0.25},
                "worker0 waited for a core 25 % of the time",
            ),
        ],
    )
    def test_a_host_that_could_not_keep_up_is_told(self, run: RunDir, counted: Row, reason: str):
        totals = totals_of(device_busy_s=0.5, **counted)
        result = seal(run, replayed(), Outcome(totals={"worker0": totals}))
        assert result.host_limited
        assert reason in result.warnings[0]
        assert result.nodes[0].device_busy_percent == 50

    def test_one_that_kept_up_is_not(self, run: RunDir):
        totals = totals_of(late_steps=5, ready_s=0.01, most_ready_s=0.19)
        result = seal(run, replayed(), Outcome(totals={"worker0": totals}))
        assert not result.host_limited
        assert result.warnings == ()

    def test_steps_that_may_have_been_late_are_not_called_in_time(self, run: RunDir):
        totals = totals_of(late_steps=None, ready_s=0.01)
        result = seal(run, replayed(), Outcome(totals={"worker0": totals}))
        assert result.workers[0].late_steps is None
        assert not result.host_limited

    def test_real_compute_on_a_machine_with_room_is_not_host_limited(self, run: RunDir):
        totals = totals_of(ready_s=0.9, final_loss=1.0)
        result = seal(run, facts_of(), Outcome(totals={"worker0": totals}))
        assert not result.host_limited
        assert result.label == "real compute"


def totals_of(**others: Any) -> WorkerAccount:
    known = {"worker_steps": 100, "samples": 1000, "train_s": 1.0, "global_steps": 100}
    return WorkerAccount(**known | {"late_steps": 0} | others)


def test_what_every_incarnation_of_a_worker_did_counts(run: RunDir):
    first = [step_row(1, 40, 40, 9.0, sent_bytes=400), step_row(2, 70, 30, 9.0, sent_bytes=700)]
    second = [step_row(4, 5, 5, 2.0, sent_bytes=50), step_row(5, 50, 45, 2.0, sent_bytes=500)]
    write(run, "worker0", *first, *second)
    (worker,) = seal(run, facts_of(), Outcome()).workers
    assert (worker.worker_steps, worker.samples, worker.sent_bytes) == (120, 1200, 1200)


def test_rows_of_an_earlier_incarnation_count_beside_what_the_last_one_said(run: RunDir):
    write(run, "worker0", step_row(2, 70, 70, 9.0), step_row(5, 50, 50, 2.0))
    said = {"worker0": WorkerAccount(train_s=6.0, worker_steps=52, samples=520, final_loss=2.0)}
    result = seal(run, facts_of(), Outcome(totals=said))
    assert (result.worker_steps, result.samples, result.final_loss) == (122, 1220, 2.0)


def test_the_last_tenth_is_that_of_the_last_incarnation(run: RunDir):
    write(
        run, "worker0", step_row(2, 70, 70, 9.0), step_row(5, 90, 90, 2.0), step_row(6, 100, 10, 1)
    )
    assert seal(run, facts_of(), Outcome()).final_loss == pytest.approx(1.0)


def test_the_steady_rate_counts_what_every_incarnation_did(run: RunDir):
    rows = [step_row(1, 10, 10, 1.0), step_row(4, 40, 30, 1.0), step_row(9, 20, 20, 1.0)]
    write(run, "worker0", *rows, step_row(10, 30, 10, 1.0))
    assert seal(run, facts_of(), Outcome()).steady_samples_per_s == pytest.approx(600 / 9)
