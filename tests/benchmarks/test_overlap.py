"""The benchmark of overlapped servers: what a host limits is run again, and medians are judged."""

import pytest
from before_after import Interval
from overlap import BUDGET_GBIT, SIDES, Case, Kept, compare, is_no_slower, tell

RESNET = Case("resnet50", 4, "2gbit")


def limited_below(dilation):
    """A host that limits the ring's runs up to a dilation; and how all runs were dilated."""
    seen = []

    def run(spec):
        seen.append(spec.dilation)
        return 4.0, spec.strategy.name == "ring" and spec.dilation < dilation

    return run, seen


def test_resnet50_with_four_workers_at_2_gbit_is_dilated_twelve_times():
    assert RESNET.dilation(BUDGET_GBIT) == pytest.approx(12)
    assert Case("resnet50", 2, "100mbit").dilation(BUDGET_GBIT) == 1


def test_all_sides_are_run_again_where_one_was_limited(capsys):
    run, seen = limited_below(20)
    found = compare(RESNET, BUDGET_GBIT, 12.0, 1, run)
    assert seen == pytest.approx([12] * len(SIDES) + [24] * len(SIDES))
    assert (found.dilation, found.limited) == (pytest.approx(24), ())
    assert all(len(each) == 1 for each in found.images_per_s.values())
    assert "limited by this host (ring); all sides again, dilated 24x" in capsys.readouterr().out


def test_what_stays_limited_is_not_judged(capsys):
    run, seen = limited_below(1000)
    found = compare(RESNET, BUDGET_GBIT, 12.0, 1, run)
    assert len(seen) == 3 * len(SIDES)
    assert not tell(RESNET, found)
    told = capsys.readouterr().out
    assert "still limited by this host (ring): not judged" in told
    assert "met" not in told


@pytest.mark.parametrize(
    ("low", "median", "high", "is_met"),
    [
        (0.98, 1.1, 1.2, True),
        (0.95, 0.99, 1.02, True),
        (0.4, 0.7, 1.0, False),  # a spread of 0.6 excuses nothing
        (0.975, 0.98, 0.99, False),  # certainly slower
    ],
)
def test_a_wide_spread_does_not_let_a_slower_median_pass(low, median, high, is_met):
    assert is_no_slower(Interval(low, median, high, 5)) == is_met


def test_runs_that_were_made_before_are_not_made_again(tmp_path):
    run, seen = limited_below(20)
    first = compare(RESNET, BUDGET_GBIT, 12.0, 2, Kept(tmp_path / "kept.jsonl", run))
    num_runs = len(seen)
    again = compare(RESNET, BUDGET_GBIT, 12.0, 2, Kept(tmp_path / "kept.jsonl", run))
    assert (again, len(seen)) == (first, num_runs)
    compare(RESNET, BUDGET_GBIT, 12.0, 3, Kept(tmp_path / "kept.jsonl", run))
    assert len(seen) == num_runs + 2 * len(SIDES)  # one more of each, at both dilations
