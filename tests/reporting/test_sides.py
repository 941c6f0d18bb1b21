"""Which runs repeat one another, and what tells the others apart."""

import pytest

from paceline.reporting.sides import reference_of, sides_of
from tests.made_runs import made


def test_runs_of_one_spec_are_repetitions(tmp_path):
    runs = [made(tmp_path, "ring", seconds=seconds) for seconds in (5, 9, 6)]
    (side,) = sides_of(runs)
    measured = side.measure(lambda run: run.result.train_s)
    assert (measured.median, measured.low, measured.high, measured.count) == (6, 5, 9, 3)
    assert side.shown is runs[2]


def test_another_seed_or_another_evaluation_makes_no_other_side(tmp_path):
    runs = [made(tmp_path), made(tmp_path, more="eval_every = 7")]
    assert len(sides_of(runs)) == 1


def test_labels_name_only_what_differs(tmp_path):
    runs = [
        made(tmp_path, "single", num_workers=1),
        made(tmp_path, "ring"),
        made(tmp_path, "ps-sync"),
    ]
    assert [side.label for side in sides_of(runs)] == ["single", "ring", "ps-sync"]


def test_variants_of_a_strategy_stand_together_by_what_was_varied(tmp_path):
    pairs = [("ring", 10), ("single", 10), ("ring", 100), ("single", 100)]
    runs = [made(tmp_path, strategy, batch=batch) for strategy, batch in pairs]
    labels = [side.label for side in sides_of(runs)]
    assert labels == ["ring, batch 10", "ring, batch 100", "single, batch 10", "single, batch 100"]


def test_a_failed_run_is_no_part_of_a_median(tmp_path):
    runs = [made(tmp_path, seconds=4), made(tmp_path, seconds=1, status="failed")]
    (side,) = sides_of(runs)
    assert side.median(lambda run: run.result.train_s) == 4


def test_sides_that_cannot_be_told_apart_are_numbered(tmp_path):
    runs = [made(tmp_path), made(tmp_path, more='dtype = "float32"')]
    assert [side.label for side in sides_of(runs)] == ["ring", "ring (2)"]


def test_a_speed_up_is_against_one_worker_at_the_same_batch(tmp_path):
    runs = [
        *(made(tmp_path, "single", num_workers=1, batch=batch) for batch in (10, 100)),
        *(made(tmp_path, "ring", batch=batch) for batch in (10, 100)),
    ]
    sides = sides_of(runs)
    assert [reference_of(side, sides).label for side in sides[2:]] == [
        "single, batch 10",
        "single, batch 100",
    ]


REPLAYED = {"compute": "replayed", "device": "replay:k80"}


@pytest.mark.parametrize(
    "other",
    [
        {"workload": "lenet-mnist"},
        {"fields_of_workload": 'subset = "full"'},
        REPLAYED,
        REPLAYED | {"dilation": 4.0},
    ],
    ids=["workload", "its-rows", "device", "dilation"],
)
def test_one_worker_at_another_task_is_nothing_to_count_a_speed_up_from(other, tmp_path):
    own = {"fields_of_workload": 'subset = "tenth"'}
    ours = own | (REPLAYED if "dilation" in other else {})
    runs = [
        made(tmp_path, "single", num_workers=1, **(own | other)),
        made(tmp_path, "ring", **ours),
    ]
    single, ring = sides_of(runs)
    assert reference_of(ring, [single, ring]) is None


def test_where_rows_lie_and_how_they_are_read_makes_no_other_task(tmp_path):
    runs = [
        made(tmp_path, "single", num_workers=1, fields_of_workload='data_dir = "/a"'),
        made(tmp_path, "ring", fields_of_workload='data_dir = "/b"'),
    ]
    single, ring = sides_of(runs)
    assert reference_of(ring, [single, ring]) is single
    assert [single.label, ring.label] == ["single", "ring"]


def test_what_sides_train_is_told_where_it_differs_between_strategies(tmp_path):
    runs = [
        made(tmp_path, "single", fields_of_workload='subset = "full"'),
        made(tmp_path, "ring", fields_of_workload='subset = "tenth"'),
    ]
    assert [side.label for side in sides_of(runs)] == ["single, subset full", "ring, subset tenth"]


def test_several_targets_are_named_as_they_are_typed(tmp_path):
    given = ("target = ['mae<=0.2', 'r2>=0.9']", "target = ['mae<=0.1']")
    labels = [side.label for side in sides_of([made(tmp_path, more=each) for each in given])]
    assert labels == ["ring, target mae<=0.2 and r2>=0.9", "ring, target mae<=0.1"]
