"""The benchmark of overlapped servers: what a host limits is run again, and medians are judged."""

import pytest
from before_after import Interval
from overlap import (
    BUDGET_GBIT,
    OVERLAPS,
    RIVALS,
    Asked,
    Case,
    Kept,
    compare,
    is_no_slower,
    tell,
    tell_real,
)

RESNET = Case("resnet50", 4, "2gbit")


def limited_below(dilation):
    """A host that limits the ring's runs up to a dilation; and how all runs were dilated."""
    seen = []

    def run(spec):
        seen.append(spec.dilation)
        return 4.0, spec.strategy.name == "ring" and spec.dilation < dilation

    return run, seen


def test_a_pair_is_slowed_by_the_links_that_it_fills():
    assert RESNET.dilation(RIVALS, BUDGET_GBIT) == pytest.approx(12)
    assert RESNET.dilation(OVERLAPS, BUDGET_GBIT) == pytest.approx(3)
    assert Case("resnet50", 2, "100mbit").dilation(RIVALS, BUDGET_GBIT) == 1


def test_both_sides_are_run_again_where_one_was_limited(capsys):
    run, seen = limited_below(20)
    found = compare(RESNET, RIVALS, Asked(run=run))
    assert seen == pytest.approx([12] * 2 + [24] * 2)
    assert (found.dilation, found.limited) == (pytest.approx(24), ())
    assert {side: len(each) for side, each in found.images_per_s.items()} == {
        "ring": 1,
        "spread": 1,
    }
    told = capsys.readouterr().out
    assert "limited by this host (ring); ring and spread again, dilated 24x" in told
    compare(RESNET, OVERLAPS, Asked(run=run))
    assert seen[4:] == pytest.approx([3] * 2)  # the other pair is not concerned


def test_what_stays_limited_is_not_judged(capsys):
    run, seen = limited_below(1000)
    found = compare(RESNET, RIVALS, Asked(run=run))
    assert len(seen) == 3 * 2
    assert not tell(RESNET, found)
    told = capsys.readouterr().out
    assert "still limited by this host (ring): not judged" in told
    assert "met" not in told


@pytest.mark.parametrize(
    ("case", "words"),
    [
        # Gradients that take more than twice as long as computing: said, and only stated.
        (RESNET, "take 2.06 of computing"),
        (Case("resnet50", 2, "2gbit"), "take 0.69 of computing"),
    ],
)
def test_one_server_is_judged_where_the_link_and_computing_are_alike(case, words, capsys):
    def run(spec):
        return (4.0 if spec.strategy.overlap else 3.0), False

    assert tell(case, compare(case, OVERLAPS, Asked(run=run)))
    told = capsys.readouterr().out
    assert words in told
    assert told.endswith("stated only\n" if case == RESNET else "wanted 1.15: met\n")


def test_real_compute_says_how_many_runs_this_host_limited(capsys):
    assert tell_real("lenet", 1, lambda spec: (4.0, spec.strategy.overlap))
    assert "this host limited 5 of 10 runs" in capsys.readouterr().out


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

    def again(repetitions):
        kept = Kept(tmp_path / "kept.jsonl", run)
        return compare(RESNET, RIVALS, Asked(repetitions=repetitions, run=kept))

    first, num_runs = again(2), len(seen)
    assert (again(2), len(seen)) == (first, num_runs)
    again(3)
    assert len(seen) == num_runs + 2 * 2  # one more of each, at both dilations
