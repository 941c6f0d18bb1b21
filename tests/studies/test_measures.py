"""What is measured twice differs: which side is above the other, and where that cannot be told."""

import polars
import pytest

from paceline.studies.evidence import Untestable
from paceline.studies.measures import above, epoch_dip, tie
from tests.made_runs import made

EPOCHS = 3
AN_EPOCH_S = 10.0


class TestApart:
    @pytest.mark.parametrize(
        ("first", "second"),
        [([3.0, 3.2], [1.0, 2.9]), ([1.0], [1.1]), ([100.0], [103.0, 104.0]), ([0.1], [0.0])],
    )
    def test_ranges_that_do_not_overlap_are_apart(self, first, second):
        assert tie(first, second) == tie(second, first) == ""
        higher, lower = sorted((first, second), reverse=True)
        assert above(higher, lower) == (True, "")
        assert above(lower, higher) == (False, "")

    @pytest.mark.parametrize(
        ("first", "second", "why"),
        [
            ([1.0, 3.0], [2.0, 4.0], "the ranges of repetitions overlap"),
            ([1.0, 1.0], [1.0, 1.0], "the ranges of repetitions overlap"),
            ([2.0], [1.0, 4.0], "the ranges of repetitions overlap"),
            ([1.00], [1.01], "less than 2 % apart"),
            ([100.0], [101.0, 101.5], "less than 2 % apart"),
            ([0.0], [0.0], "a tie"),
        ],
    )
    def test_others_are_a_tie_and_neither_is_above(self, first, second, why):
        assert why in tie(first, second)
        assert why in tie(second, first)
        assert above(first, second)[0] is above(second, first)[0] is False

    def test_many_repetitions_may_differ_by_little(self):
        assert above([1.010, 1.011, 1.012], [1.000, 1.001, 1.002]) == (True, "")

    def test_of_nothing_nothing_can_be_told(self):
        with pytest.raises(Untestable):
            tie([], [1.0])


class TestEpochDip:
    def looked_at(self, tmp_path, times_an_epoch: int):
        """A run whose node rests for the last fifth of each epoch but the last."""
        run = made(tmp_path, "ps-sync", seconds=(EPOCHS + 1) * AN_EPOCH_S, num_rows=400)
        run.folder.spec.write_text(run.folder.spec.read_text().replace("epochs = 3", "epochs = 4"))
        count = (EPOCHS + 1) * times_an_epoch
        times = [(EPOCHS + 1) * AN_EPOCH_S * (each + 1) / count for each in range(count)]
        rows = [
            {
                "node": "node0",
                "time_s": time_s,
                "phase": "training",
                "cpu_percent": 10.0 if time_s % AN_EPOCH_S > 0.8 * AN_EPOCH_S else 90.0,
                "memory_bytes": 1,
            }
            for time_s in times
        ]
        polars.DataFrame(rows).write_parquet(run.folder.nodes)
        return run

    def test_a_rest_at_the_end_of_epochs_is_seen(self, tmp_path):
        found = epoch_dip(self.looked_at(tmp_path, 40))
        assert found is not None
        assert found < 0.8

    def test_with_few_samples_nothing_is_said(self, tmp_path):
        assert epoch_dip(self.looked_at(tmp_path, 4)) is None

    def test_nor_with_few_epochs(self, tmp_path):
        assert epoch_dip(made(tmp_path, "ps-sync")) is None

    def test_nor_of_what_was_not_recorded(self, tmp_path):
        assert epoch_dip(self.looked_at(tmp_path, 40), "net_sent_bytes_per_s") is None
