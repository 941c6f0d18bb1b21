"""To which level sides are timed, whatever their metric."""

import math

import polars
import pytest

from paceline.reporting.common_level import common_level, time_to
from paceline.reporting.level import yardstick
from paceline.reporting.sides import sides_of
from paceline.training.metrics import Target
from tests.made_runs import made

MAE = {"better": {"accuracy": "higher", "mae": "lower", "loss": "lower"}}


def level(*runs):
    return common_level(sides_of(runs))


def test_a_level_of_the_metric_that_the_workload_names_first(tmp_path):
    found = level(
        made(tmp_path, "ring", metrics={"loss": (3.0, 0.1), "mae": (1.0, 0.183)}, **MAE),
        made(tmp_path, "ps-sync", metrics={"loss": (3.0, 0.1), "mae": (1.1, 0.211)}, **MAE),
    )
    # Two digits of what was learnt, 0.87, on the side that all reached.
    assert found == Target("mae", "lower", 0.22)
    assert found.words == "mae <= 0.22"


def test_accuracy_comes_first_where_there_is_one(tmp_path):
    metrics = {"mae": (1.0, 0.2), "accuracy": (0.1, 0.905)}
    assert level(made(tmp_path, metrics=metrics, **MAE)) == Target("accuracy", "higher", 0.9)


def test_test_loss_is_taken_where_nothing_else_has_a_direction(tmp_path):
    runs = [made(tmp_path, metrics={"f1": (0.1, 0.8), "loss": (2.0, 0.52)})]
    assert level(*runs) == Target("loss", "lower", 0.6)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0.0, 12_345.0, 12_000.0), (-3.0, -1.27, -1.3), (0.0, 0.0042, 0.0042)],
)
def test_higher_is_rounded_down_to_digits_of_what_was_learnt(tmp_path, first, last, expected):
    run = made(tmp_path, metrics={"score": (first, last)}, better={"score": "higher"})
    assert level(run) == Target("score", "higher", expected)
    assert time_to(run, level(run)) is not None


def test_who_ends_far_behind_does_not_lower_the_level(tmp_path):
    good = [made(tmp_path, name, metrics={"mae": (1.0, 0.2)}, **MAE) for name in ("ring", "solo")]
    bad = made(tmp_path, "ps-async", metrics={"mae": (1.0, 0.7)}, **MAE)
    assert level(*good, bad) == Target("mae", "lower", 0.2)
    assert time_to(bad, level(*good, bad)) is None
    diverged = made(tmp_path, "ps-sync", metrics={"mae": (1.0, 1e9)}, **MAE)
    assert level(*good, diverged) == Target("mae", "lower", 0.2)


def test_where_nothing_was_learnt_there_is_no_level(tmp_path):
    assert level(made(tmp_path, metrics={"mae": (0.2, 0.2)}, **MAE)) is None
    assert level(made(tmp_path, accuracy=None)) is None


def test_a_value_that_is_no_number_reaches_nothing(tmp_path):
    run = made(tmp_path, metrics={"mae": (1.0, 0.1)}, **MAE)
    rows = polars.read_parquet(run.folder.evaluations)
    broken = [*rows["mae"].to_list()[:-1], math.nan]
    rows.with_columns(mae=polars.Series(broken)).write_parquet(run.folder.evaluations)
    assert time_to(run, Target("mae", "higher", 5.0)) is None
    assert level(run) == Target("mae", "lower", 0.2)


def test_sides_are_timed_to_it(tmp_path):
    runs = [
        made(tmp_path, "ring", seconds=5.0, metrics={"mae": (1.0, 0.105)}, **MAE),
        made(tmp_path, "ps-sync", seconds=10.0, metrics={"mae": (1.0, 0.105)}, **MAE),
    ]
    stick = yardstick(sides_of(runs))
    assert (stick.kind, stick.words) == ("level", "to mae <= 0.11")
    assert [stick.of(run) for run in runs] == [5.0, 10.0]


def test_a_target_on_any_metric_is_what_sides_are_timed_to(tmp_path):
    target = {"target": "mae<=0.5 and r2>=0.9", "metrics": {"mae": (1.0, 0.1)}}
    runs = [
        made(tmp_path, "ring", seconds_to_target=4.0, **target),
        made(tmp_path, "ps-sync", seconds_to_target=5.0, **target),
    ]
    assert yardstick(sides_of(runs)).words == "to mae <= 0.5 and r2 >= 0.9"
