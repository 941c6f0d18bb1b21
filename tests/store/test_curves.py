"""Lines of a run: few points, right ends, nothing made up."""

import polars
import pytest

from paceline.store import curves
from tests.made_runs import made


def test_a_loss_curve_ends_where_the_run_ended(tmp_path):
    frame = curves.loss(made(tmp_path, seconds=10, rows=30_000, num_workers=3))
    assert frame.columns == ["time_s", "samples", "steps", "loss", "smoothed"]
    last = frame.row(-1, named=True)
    assert (last["time_s"], last["samples"]) == (10, 30_000)
    assert last["loss"] == pytest.approx(0.5)


def test_a_long_run_has_no_more_points_than_are_drawn(tmp_path):
    run = made(tmp_path, seconds=1000, num_rows=9000)
    assert 300 < len(curves.loss(run)) <= curves.MOST_POINTS
    assert len(curves.loss(run, most_points=50)) <= 50


def test_smoothing_takes_noise_away_and_keeps_the_level(tmp_path):
    run = made(tmp_path, seconds=100, num_rows=900)
    noisy = run.steps.with_row_index().with_columns(
        loss_mean=1.0 + 0.5 * (polars.col("index") % 2 * 2.0 - 1)
    )
    noisy.drop("index").write_parquet(run.folder.steps)
    del run.__dict__["steps"]
    frame = curves.loss(run)
    assert frame["smoothed"].std() < frame["loss"].std()
    assert frame["smoothed"].mean() == pytest.approx(1.0, abs=0.02)


def test_a_loss_that_is_no_number_is_left_out(tmp_path):
    run = made(tmp_path)
    worse = run.steps.with_columns(
        loss_mean=polars.when(polars.col("time_s") > 5).then(float("nan")).otherwise(1.0)
    )
    worse.write_parquet(run.folder.steps)
    del run.__dict__["steps"]
    assert curves.loss(run)["time_s"].max() <= 5


def test_rates_are_of_all_workers_together(tmp_path):
    frame = curves.rate(made(tmp_path, seconds=10, rows=30_000))
    assert frame["samples_per_s"].mean() == pytest.approx(3000, rel=0.05)


def test_what_workers_exchanged_is_added_up(tmp_path):
    run = made(tmp_path, seconds=10)
    frame = curves.exchanged(run)
    workers = run.result.num_workers
    assert frame["sent_bytes_per_s"].to_list() == pytest.approx(
        [workers * 1e6] * len(frame), rel=0.1
    )
    assert frame["received_bytes_per_s"].mean() == pytest.approx(workers * 2e6, rel=0.05)


def test_where_nothing_was_counted_nothing_was_exchanged(tmp_path):
    run = made(tmp_path)
    for others in (run.steps.with_columns(sent_bytes=None), run.steps.drop("sent_bytes")):
        others.write_parquet(run.folder.steps)
        del run.__dict__["steps"]
        assert curves.exchanged(run).is_empty()


def test_counters_become_rates_node_by_node(tmp_path):
    frame = curves.usage(made(tmp_path, seconds=10, num_nodes=2))
    assert set(frame["node"]) == {"node0", "node1"}
    assert frame["net_sent_bytes_per_s"].drop_nulls().to_list() == pytest.approx([1e6] * 18)


def test_memory_does_not_fall_when_seats_leave(tmp_path):
    run = made(tmp_path, seconds=10)
    before = curves.usage(run)["memory_bytes"]
    is_last = polars.col("time_s") == polars.col("time_s").max()
    left = run.nodes.with_columns(
        phase=polars.when(is_last).then(polars.lit("mixed")).otherwise("phase"),
        memory_bytes=polars.when(is_last).then(0).otherwise("memory_bytes"),
    )
    left.write_parquet(run.folder.nodes)
    del run.__dict__["nodes"]
    assert curves.usage(run)["memory_bytes"].min() == before.min()


def test_a_short_run_has_its_memory_at_the_start_and_at_the_end(tmp_path):
    run = made(tmp_path, seconds=10)
    first = run.nodes.head(1)
    rows = [
        first.with_columns(time_s=polars.lit(time_s), phase=polars.lit(phase))
        for time_s, phase in ((0.0, "starting"), (0.05, "training"), (0.05, "evaluating"))
    ]
    polars.concat(rows).write_parquet(run.folder.nodes)
    del run.__dict__["nodes"]
    usage = curves.usage(run)
    assert usage["time_s"].to_list() == [0.0, 0.05]
    assert usage["memory_bytes"].is_not_null().all()
    assert usage["cpu_percent"].is_null().to_list() == [True, False]
    unsampled = run.nodes.with_columns(cpu_percent=polars.lit(None, polars.Float64))
    unsampled.write_parquet(run.folder.nodes)
    del run.__dict__["nodes"]
    counted = run.result.nodes[0].cpu_percent_mean  # by its seats themselves
    assert curves.usage(run)["cpu_percent"].to_list() == [None, counted]


def test_a_run_without_rows_has_empty_curves(tmp_path):
    run = made(tmp_path, num_rows=0, accuracy=None)
    for curve in (curves.loss, curves.rate, curves.usage, curves.metric):
        assert curve(run).is_empty()
