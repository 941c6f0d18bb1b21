"""What several workers found of their shares, joined."""

import math

import pytest

from paceline.comm.words import Evaluated
from paceline.engine.shared_evaluation import SharedEvaluation


def found(*parts):
    shares = SharedEvaluation(f"worker{number}" for number in range(len(parts)))
    for number, (metrics, num_rows) in enumerate(parts):
        shares.take(f"worker{number}", Evaluated(metrics, num_rows))
    return shares.joined()


def test_values_are_weighted_by_rows():
    joined = found(({"accuracy": 0.5, "loss": 1.0}, 30), ({"accuracy": 1.0, "loss": 4.0}, 10))
    assert joined == pytest.approx({"accuracy": 0.625, "loss": 1.75})


def test_who_had_no_rows_counts_for_nothing():
    assert found(({"loss": 2.0}, 8), ({"loss": math.nan}, 0)) == {"loss": 2.0}


def test_a_value_that_is_no_number_is_not_hidden():
    assert math.isnan(found(({"loss": 2.0}, 8), ({"loss": math.nan}, 1))["loss"])


def test_a_value_that_only_some_log_is_the_mean_of_theirs():
    joined = found(({"loss": 1.0, "first": 3.0}, 5), ({"loss": 3.0}, 15))
    assert joined == {"loss": 2.5, "first": 3.0}


def test_it_is_joined_when_nobody_is_missing():
    shares = SharedEvaluation(["worker0", "worker1"])
    shares.take("worker0", Evaluated({"loss": 1.0}, 4))
    assert shares.joined() is None
    shares.missing.discard("worker1")  # it was lost
    assert shares.joined() == {"loss": 1.0}


def test_it_is_in_vain_where_all_are_lost_before_they_found_anything():
    shares = SharedEvaluation(["worker0"])
    assert not shares.is_in_vain
    shares.missing.discard("worker0")
    assert shares.is_in_vain
    assert shares.joined() is None
