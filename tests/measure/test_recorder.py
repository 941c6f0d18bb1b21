"""A worker's rows: their figures are those of the losses since the row before."""

import json
import math
from array import array
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.measure.recorder import Recorder
from tests.sinks.kept import Kept


@pytest.fixture
def kept() -> Kept:
    return Kept()


def rows_in(kept: Kept) -> list[dict[str, float]]:
    return [json.loads(line) for line in kept.streams["rows"].splitlines()]


def test_a_row_has_the_moments_of_its_own_losses(kept: Kept):
    recorder = Recorder(kept)
    recorder.losses += [3.0, 1.0, 2.0]
    recorder.write(0.5, 30, 3)
    recorder.losses += [7.0]
    recorder.write(0.75, 40, 4)
    first, second = rows_in(kept)
    assert (first["count"], first["worker_steps"], first["samples"]) == (3, 3, 30)
    assert (first["loss_mean"], first["loss_min"], first["loss_max"]) == (2.0, 1.0, 3.0)
    assert first["loss_variance"] == pytest.approx(2 / 3)
    assert (second["count"], second["worker_steps"], second["global_steps"]) == (1, 4, 4)
    assert (second["loss_mean"], second["loss_variance"], second["time_s"]) == (7.0, 0.0, 0.75)
    assert recorder.final_loss() == 7.0


def test_the_final_loss_is_the_same_however_often_rows_are_written():
    losses = [float(number) for number in range(100)]
    seldom, often = Recorder(Kept()), Recorder(Kept())
    seldom.losses += losses
    seldom.write(1.0, 100, 100)
    for loss in losses:
        often.losses.append(loss)
        often.write(1.0, 100, 100)
    assert seldom.final_loss() == often.final_loss() == 94.5


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_moments_are_those_of_statistics(losses: list[float]):
    recorder = Recorder(Kept())
    recorder.losses += losses
    row = recorder.write(1.0, 1, 1)
    assert row["loss_mean"] == fmean(losses)
    assert row["loss_variance"] == pytest.approx(pvariance(losses), rel=1e-6, abs=1e-9)
    assert row["loss_min"] <= row["loss_mean"] <= row["loss_max"] or math.isclose(
        row["loss_min"], row["loss_max"]
    )


@pytest.mark.parametrize(
    "losses",
    [
        [math.nan, 1.0],
        [math.inf, 1.0],
        [math.inf, -math.inf],
        [1e200, 1.0],
        [1.7e308, 1.7e308],
    ],
    ids=str,
)
def test_a_run_that_diverges_is_recorded_not_stopped(kept: Kept, losses: list[float]):
    recorder = Recorder(kept, keeps_losses=True)
    recorder.losses += losses
    recorder.write(1.0, 2, 2)
    (row,) = rows_in(kept)
    assert row["count"] == 2
    assert not (math.isfinite(row["loss_mean"]) and math.isfinite(row["loss_variance"]))


def test_spans_are_summed_for_each_row(kept: Kept):
    recorder = Recorder(kept)
    recorder.loading.total_ns = 2_000_000
    recorder.computing.total_ns = 3_000_000
    recorder.exchanging.total_ns = 4_000_000
    recorder.losses.append(1.0)
    recorder.write(1.0, 1, 1)
    recorder.losses.append(1.0)
    recorder.write(2.0, 2, 2)
    first, second = rows_in(kept)
    assert (first["load_s"], first["compute_s"], first["exchange_s"]) == (0.002, 0.003, 0.004)
    assert (second["load_s"], second["compute_s"], second["exchange_s"]) == (0, 0, 0)


def test_every_loss_is_kept_where_asked_for(kept: Kept):
    recorder = Recorder(kept, keeps_losses=True)
    for losses in ([1.5, 2.5], [3.5]):
        recorder.losses += losses
        recorder.write(1.0, 1, None)
    found = array("f", kept.streams["losses"])
    assert found.tolist() == [1.5, 2.5, 3.5]
    assert len(rows_in(kept)) == 2


def test_a_worker_that_keeps_nothing_still_knows_its_figures(kept: Kept):
    recorder = Recorder(kept, keeps_rows=False)
    recorder.losses += [4.0, 2.0]
    row = recorder.write(1.0, 20, None)
    assert (row["loss_mean"], row["global_steps"], recorder.num_steps) == (3.0, None, 2)
    assert kept.streams == {}
