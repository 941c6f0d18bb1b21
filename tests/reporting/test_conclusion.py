"""The conclusion: what a reader takes away must follow from the figures."""

from paceline.reporting.conclusion import conclude, enumerated, number
from paceline.reporting.ranking import ties
from paceline.reporting.sides import Measure, sides_of
from tests.made_runs import made


def said(*runs) -> str:
    return " ".join(conclude(sides_of(runs)))


def thrice(folder, strategy="ring", seconds=10.0, **fields) -> list:
    """Three repetitions, a hundredth apart."""
    fields = {"num_rows": 0, **fields}
    return [made(folder, strategy, seconds=seconds * each, **fields) for each in (0.99, 1, 1.01)]


def measure(*values: float) -> Measure:
    middle = sorted(values)[len(values) // 2]
    return Measure(median=middle, low=min(values), high=max(values), count=len(values))


class TestTies:
    def test_repetitions_that_overlap_tie(self):
        assert ties(measure(4.0, 4.1, 4.4), measure(4.3, 4.5, 4.6))

    def test_repetitions_apart_do_not(self):
        assert not ties(measure(4.0, 4.1, 4.2), measure(4.3, 4.5, 4.6))


class TestFastest:
    def test_the_fastest_to_an_accuracy_that_all_reach_comes_first(self, tmp_path):
        first, *_ = conclude(
            sides_of(
                [
                    *thrice(tmp_path, "ps-async", 10, accuracy=0.905),
                    *thrice(tmp_path, "ring", 5, accuracy=0.92),
                ]
            )
        )
        expected = "ring is fastest to 90 % accuracy: 5.00 s against 10.0 s for ps-async."
        assert first == expected

    def test_who_ends_far_below_does_not_lower_the_level(self, tmp_path):
        text = said(
            *thrice(tmp_path, "single", num_workers=1, accuracy=0.9),
            *thrice(tmp_path, "ring", 5, accuracy=0.88),
            *thrice(tmp_path, "ps-async", accuracy=0.1),
        )
        assert "fastest to 88 % accuracy" in text
        assert "ps-async did not get there" in text

    def test_a_target_is_what_counts_where_all_had_one(self, tmp_path):
        text = said(
            *thrice(tmp_path, "ring", target="accuracy>=0.85", seconds_to_target=4.1),
            *thrice(tmp_path, "ps-sync", target="accuracy>=0.85", seconds_to_target=5.0),
            *thrice(tmp_path, "ps-async", target="accuracy>=0.85"),
        )
        assert text.startswith(
            "ring is fastest to 85 % accuracy: 4.10 s against 5.00 s for ps-sync; "
            "ps-async did not get there."
        )

    def test_a_target_that_nobody_reached_is_told_and_something_else_compared(self, tmp_path):
        text = said(
            *thrice(tmp_path, "ring", 5, target="accuracy>=0.95"),
            *thrice(tmp_path, "ps-sync", 10, target="accuracy>=0.95"),
        )
        assert text.startswith("No side got to 95 % accuracy. ring is fastest to 90 % accuracy")

    def test_without_accuracy_the_same_rows_are_timed(self, tmp_path):
        text = said(
            *thrice(tmp_path, "ring", 5, accuracy=None),
            *thrice(tmp_path, "ps-sync", 8, accuracy=None),
        )
        assert text.startswith("ring is fastest through 30,000 rows: 5.00 s against 8.00 s")

    def test_of_different_lengths_rates_are_compared(self, tmp_path):
        text = said(
            *thrice(tmp_path, "ring", 10, accuracy=None, rows=90_000),
            *thrice(tmp_path, "ps-sync", 5, accuracy=None),
        )
        assert text.startswith("ring is fastest by rows per second: 9,000 rows/s against 6,000")

    def test_a_difference_within_the_spread_is_a_tie(self, tmp_path):
        runs = [made(tmp_path, "ring", seconds=each) for each in (4.0, 4.2, 4.5)]
        runs += [made(tmp_path, "ps-sync", seconds=each) for each in (4.1, 4.4, 4.6)]
        runs += [made(tmp_path, "ps-async", seconds=each) for each in (7.0, 7.1, 7.2)]
        text = said(*runs)
        assert "ring and ps-sync tie as fastest to 90 % accuracy: 4.20 s and 4.40 s" in text
        assert "7.10 s for ps-async" in text
        assert "Medians of 3 runs" in text

    def test_the_best_of_what_was_varied_is_named(self, tmp_path):
        runs = [
            run
            for batch, seconds in ((1, 20), (100, 5), (1000, 9))
            for run in thrice(tmp_path, "ring", seconds, batch=batch)
        ]
        assert "Best to 90 % accuracy: batch 100 for ring (5.00 s)." in said(*runs)


class TestMore:
    def test_more_workers_that_are_slower_than_one_are_named(self, tmp_path):
        text = said(*thrice(tmp_path, "single", 5, num_workers=1), *thrice(tmp_path, "ring", 10))
        assert "No side moves more rows per second than one worker: ring (0.50 times)." in text

    def test_a_speed_up_is_told(self, tmp_path):
        text = said(*thrice(tmp_path, "single", 10, num_workers=1), *thrice(tmp_path, "ring", 5))
        assert "2.00 times for ring" in text

    def test_alike_accuracies_are_called_so(self, tmp_path):
        text = said(
            made(tmp_path, "ring", accuracy=0.901), made(tmp_path, "ps-sync", accuracy=0.903)
        )
        assert "Final accuracies are alike, 90.1 to 90.3 %." in text

    def test_fewer_updates_at_one_learning_rate_are_pointed_out(self, tmp_path):
        text = said(
            made(tmp_path, "ring", accuracy=0.87),
            made(tmp_path, "ps-async", accuracy=0.9, global_steps=400),
        )
        assert "--tune-lr" in text

    def test_a_failure_is_told_and_the_others_are_compared(self, tmp_path):
        text = said(
            *thrice(tmp_path, "ring", 5),
            *thrice(tmp_path, "ps-sync", 9),
            made(tmp_path, "ddp", status="failed"),
        )
        assert text.startswith("ring is fastest")
        assert "ddp failed: worker1: it broke." in text

    def test_where_nothing_finished_that_is_the_conclusion(self, tmp_path):
        assert said(made(tmp_path, status="failed")).startswith("No run finished.")

    def test_one_run_alone_is_told_plainly(self, tmp_path):
        assert said(made(tmp_path)).startswith("ring: 10.0 s to 90 % accuracy.")


class TestSeveralTasks:
    def test_each_workload_has_its_own_fastest_and_its_own_level(self, tmp_path):
        lenet = {"workload": "lenet-mnist", "accuracy": 0.98}
        sentences = conclude(
            sides_of(
                [
                    *thrice(tmp_path, "single", 10, num_workers=1),
                    *thrice(tmp_path, "ring", 20),
                    *thrice(tmp_path, "single", 30, num_workers=1, **lenet),
                    *thrice(tmp_path, "ring", 20, **lenet),
                ]
            )
        )
        assert sentences == (
            (
                "logistic-mnist: single, logistic-mnist is fastest to 90 % accuracy: 10.0 s "
                "against 20.0 s for ring, logistic-mnist."
            ),
            (
                "logistic-mnist: No side moves more rows per second than one worker: "
                "ring, logistic-mnist (0.50 times)."
            ),
            "logistic-mnist: Final accuracies are alike, 90.0 to 90.0 %.",
            (
                "lenet-mnist: ring, lenet-mnist is fastest to 98 % accuracy: 20.0 s against 30.0 s "
                "for single, lenet-mnist."
            ),
            "lenet-mnist: Rows per second against one worker: 1.50 times for ring, lenet-mnist.",
            "lenet-mnist: Final accuracies are alike, 98.0 to 98.0 %.",
            "Sides of different workloads are not compared with one another.",
            "Medians of 3 runs each; where their ranges overlap it is called a tie.",
        )

    def test_one_side_of_each_is_not_compared_at_all(self, tmp_path):
        sentences = conclude(
            sides_of(
                [
                    made(tmp_path, "single", num_workers=1, seconds=1),
                    made(tmp_path, "ring", seconds=20, accuracy=0.98, workload="lenet-mnist"),
                ]
            )
        )
        assert sentences == (
            "single, logistic-mnist: 1.00 s to 90 % accuracy.",
            "ring, lenet-mnist: 20.0 s to 98 % accuracy.",
            "Sides of different workloads are not compared with one another.",
        )

    def test_real_and_replayed_compute_are_not_compared(self, tmp_path):
        replayed = {"compute": "replayed", "device": "replay:k80", "accuracy": None}
        device = 'device = "replay:k80"'
        text = said(
            made(tmp_path, "single", num_workers=1, seconds=1, more='device = "cpu"'),
            *thrice(tmp_path, "ring", 20, more=device, **replayed),
            *thrice(tmp_path, "ps-sync", 40, more=device, **replayed),
        )
        assert (
            "logistic-mnist, replayed compute (k80): ring, device replay:k80 is fastest through "
            "30,000 rows: 20.0 s against 40.0 s for ps-sync, device replay:k80."
        ) in text
        assert "Sides of different workloads, their settings or devices are not compared" in text
        assert "one worker" not in text


def test_numbers_have_about_three_digits():
    assert [number(each) for each in (0.123456, 1.23456, 12.3456, 12345.6)] == [
        "0.12",
        "1.23",
        "12.3",
        "12,346",
    ]


def test_parts_are_joined_as_in_a_sentence():
    assert [enumerated(["a"]), enumerated(["a", "b"]), enumerated(["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
