"""One, two and three workers of `mnist-logistic`, in a table and in figure 3 of Bhat et al."""

from dataclasses import replace

import pytest

from paceline.studies.evidence import Untestable
from paceline.studies.mnist_logistic import STUDY
from tests.studies.made_evidence import changed, made_evidence, part_of

SIDES = ["async, 2 workers", "async, 3 workers", "sync, 2 workers", "sync, 3 workers"]


@pytest.fixture
def evidence(tmp_path):
    """Five seeds: the first takes 100 s a worker, the others 10 s and a little more for each."""

    def change(plan, run):
        first_s = 100.0 if plan.repetition == 0 else 10.0 + plan.repetition
        workers = tuple(
            replace(each, train_s=first_s * run.result.num_workers + index)
            for index, each in enumerate(run.result.workers)
        )
        result = replace(
            run.result, workers=workers, train_s=first_s, test_loss=0.3 + 0.01 * plan.repetition
        )
        return replace(run, result=result)

    made = made_evidence(tmp_path, "mnist-logistic", "full", ["single", "pair"])
    return changed(made, change)


def test_figure_3_has_every_worker_of_two_and_of_three(evidence):
    frame = STUDY.figures["time-per-worker"](evidence).table.frame
    assert frame["run"].unique(maintain_order=True).to_list() == SIDES
    two, three = (frame.filter(run=f"sync, {count} workers") for count in (2, 3))
    assert two["worker"].to_list() == ["worker0", "worker1"]
    assert two["train_s"].to_list() == [26.0, 27.0]  # the third of five seeds: 13 s
    assert three["train_s"].to_list() == [39.0, 40.0, 41.0]


def test_a_table_has_time_loss_and_accuracy_of_all_beside_what_was_published(evidence):
    table = STUDY.tables["workers"](evidence)
    rows = {row["side"]: row for row in table.frame.to_dicts()}
    assert list(rows) == ["single", *SIDES]
    for row in rows.values():
        assert (row["time"], row["loss"], row["accuracy"]) == (13.0, 0.32, 0.9)
        assert row["loss_spread"] == pytest.approx(0.02)
        assert row["n"] == 5
    said = [(row["said_loss"], row["said_accuracy"]) for row in rows.values()]
    assert said == [(0.33, 0.9013), *[(None, None)] * 4]


def test_what_is_not_there_yet_is_left_out(evidence):
    two = {name for name in evidence.runs if name.startswith("pair-ps-sync-2")}
    frame = STUDY.figures["time-per-worker"](part_of(evidence, two)).table.frame
    assert frame["run"].unique().to_list() == ["sync, 2 workers"]
    with pytest.raises(Untestable, match="no runs of single"):
        STUDY.tables["workers"](part_of(evidence, two))
