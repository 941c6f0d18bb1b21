"""How well sides ended, in words."""

import pytest

from paceline.reporting.finals import finals
from paceline.reporting.sides import sides_of
from tests.made_runs import made

LOWER = {"better": {"mae": "lower"}}


def said(folder, *ends, **fields):
    runs = [
        made(folder, name, metrics={metric: (1.0, last)}, **fields) for name, metric, last in ends
    ]
    return finals(sides_of(runs))


def test_the_worst_comes_first_whichever_way_is_better(tmp_path):
    ends = ("ring", "mae", 0.2), ("solo", "mae", 0.5)
    assert said(tmp_path / "a", *ends, **LOWER) == [
        "Final mae goes from 0.5000 (solo) to 0.2000 (ring)."
    ]
    assert said(tmp_path / "b", *ends, better={"mae": "higher"}) == [
        "Final mae goes from 0.2000 (ring) to 0.5000 (solo)."
    ]


def test_values_close_together_are_called_so(tmp_path):
    told = said(tmp_path, ("ring", "mae", 0.2), ("solo", "mae", 0.202), **LOWER)
    assert told == ["All sides end with about the same mae, 0.2020 to 0.2000."]


def test_without_a_direction_test_loss_is_told(tmp_path):
    runs = [
        made(tmp_path, name, metrics={"odd": (0.0, 1.0), "loss": (2.0, last)})
        for name, last in (("ring", 0.5), ("solo", 0.1))
    ]
    assert finals(sides_of(runs)) == ["Final test loss goes from 0.5000 (ring) to 0.1000 (solo)."]


@pytest.mark.parametrize(
    "ends", [[("ring", "mae", 0.2)], [("ring", "odd", 1.0), ("solo", "odd", 2.0)]]
)
def test_what_cannot_be_set_against_each_other_is_not(tmp_path, ends):
    assert said(tmp_path, *ends, **LOWER) == []
