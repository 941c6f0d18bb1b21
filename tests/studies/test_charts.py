"""What charts of studies are made of."""

import pytest

from paceline.store import curves
from paceline.studies import charts
from tests.made_runs import made


def test_steps_a_second_are_drawn_over_all_steps_the_first_too(tmp_path):
    run = made(tmp_path, seconds=10, rows=30_000)
    frame = charts.rate("rate", "Rate", {"ring": run}).table.frame
    assert frame["steps"].max() == pytest.approx(curves.loss(run)["steps"].max())


def test_what_is_true_of_some_runs_only_is_told_in_part(tmp_path):
    runs = {
        "one": made(tmp_path, num_workers=1),
        "six": made(tmp_path, num_workers=6, host_limited=True),
    }
    figure = charts.rate("rate", "Rate", runs)
    assert figure.labels == ("real compute", "in part limited by this host")
