"""Metrics by any name: targets as people write them, and which way is better."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.training.metrics import (
    Target,
    better_of,
    in_order,
    metrics_in,
    parse_targets,
    target_words,
    targets_text,
    written,
)

MAE = Target("mae", "lower", 0.2)


class TestTargets:
    @pytest.mark.parametrize("text", ["mae<=0.2", " mae <= 0.2 ", "mae<=2e-1"])
    def test_a_target_is_read_as_people_write_it(self, text):
        assert Target.parse(text) == MAE

    @pytest.mark.parametrize(
        "text",
        ["", "mae", "mae=0.2", "mae<0.2", "<=0.2", "mae<=", "mae<=low", "mae<=nan", "a<=b<=1"],
    )
    def test_anything_else_is_refused(self, text):
        with pytest.raises(ValueError, match=r"not of the form|not finite"):
            Target.parse(text)

    @given(
        st.from_regex(r"[^<>=\s]([^<>=\n]*[^<>=\s])?", fullmatch=True),
        st.sampled_from(["higher", "lower"]),
        st.floats(allow_nan=False, allow_infinity=False),
    )
    def test_what_is_written_is_read_again(self, metric, better, value):
        target = Target(metric, better, value)
        assert parse_targets([str(target)]) == (target,)

    @pytest.mark.parametrize(
        ("value", "is_met"), [(0.19, True), (0.2, True), (0.21, False), (math.nan, False)]
    )
    def test_it_is_met_at_its_value_or_beyond(self, value, is_met):
        assert MAE.is_met({"mae": value, "loss": 0.0}) is is_met
        opposite = Target("mae", "higher", -0.2)
        assert opposite.is_met({"mae": -value}) is is_met

    def test_without_its_metric_it_is_not_met(self):
        assert not MAE.is_met({"loss": 0.0})

    def test_several_are_told_together(self):
        text = targets_text([Target("accuracy", "higher", 0.9), MAE])
        assert text == "accuracy>=0.9 and mae<=0.2"
        assert target_words(text) == "90 % accuracy and mae <= 0.2"
        assert targets_text([]) is None

    def test_a_text_of_another_kind_is_told_as_it_is(self):
        assert target_words("accuracy 0.9") == "accuracy 0.9"


def test_accuracy_decides_before_the_workloads_own_and_loss_after():
    assert list(better_of({"r2": "higher", "mae": "lower"})) == ["accuracy", "r2", "mae", "loss"]
    assert better_of({"loss": "higher"}) == {"accuracy": "higher", "loss": "higher"}


def test_metrics_stand_in_one_order_everywhere():
    assert in_order(["loss", "mae", "accuracy", "r2", "mae"]) == ["accuracy", "mae", "r2", "loss"]
    assert metrics_in({"time_s": 1.0, "progress": 5, "mae": 0.1}) == {"mae": 0.1}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("accuracy", 0.9012, "90.12 %"),
        ("mae", 0.2, "0.2000"),
        ("mse", 1.23456e-7, "1.235e-07"),
        ("perplexity", 123456.0, "1.235e+05"),
        ("r2", -0.5, "-0.5000"),
        ("none", 0.0, "0.0000"),
    ],
)
def test_a_value_is_written_with_its_digits(name, value, text):
    assert written(name, value) == text
