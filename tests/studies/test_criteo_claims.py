"""Claims of `criteo-sparse` on runs whose operators and steps are known."""

import json
from dataclasses import replace
from typing import ClassVar

import pytest

from paceline.studies.criteo_claims import accuracy_condition, s1, s2, s3, s4, s5, s8
from paceline.studies.criteo_sparse import STUDY, batch_times, time_and_accuracy
from tests.studies.made_evidence import changed, made_evidence

NUM_WEIGHTS = 33_762_578


@pytest.fixture
def whole(tmp_path):
    return made_evidence(tmp_path, "criteo-sparse")


def profiled(evidence, group: str, *operators: tuple[str, list[int], float]) -> None:
    rows = [
        {
            "operator": name if "::" in name else f"aten::{name}",
            "input_shapes": [shape],
            "ms_per_step": ms,
        }
        for name, shape, ms in operators
    ]
    run = evidence.first(group, strategy="ps-sync")
    (run.folder.profile / "worker0.operators.json").write_text(json.dumps(rows))


def dense(evidence, product_ms: float) -> None:
    """Room for the product is all weights; the other room is of the bias too."""
    profiled(
        evidence,
        "dense",
        ("fill_", [NUM_WEIGHTS, 1], product_ms - 1.0),
        ("index_add_", [NUM_WEIGHTS], 1.0),
        ("fill_", [NUM_WEIGHTS + 1], 5.0),
        ("add_", [NUM_WEIGHTS, 1], 12.0),
    )


class TestS5:
    @pytest.mark.parametrize(
        ("dense_ms", "sparse_ms", "judgement"),
        [
            (30.0, 0.1, "holds"),
            (11.0, 0.1, "does not hold here"),
            (30.0, 0.9, "does not hold here"),
        ],
    )
    def test_the_product_must_be_the_largest_where_it_is_dense_and_only_there(
        self, whole, dense_ms, sparse_ms, judgement
    ):
        dense(whole, dense_ms)
        profiled(whole, "resources", ("index_add_", [393], sparse_ms), ("index_select", [393], 0.4))
        judged = s5(whole)
        assert judged.judgement == judgement
        assert f"dense: backward product {dense_ms:.3f} ms per step, then add_ 12.000 ms" in (
            judged.measured
        )

    @pytest.mark.parametrize(
        ("other_ms", "judgement"), [(0.4, "cannot be tested here"), (1e6, "holds")]
    )
    def test_a_product_that_no_profile_saw_takes_at_most_all_computing(
        self, whole, other_ms, judgement
    ):
        dense(whole, 30.0)
        profiled(whole, "resources", ("index_select", [393], other_ms))
        judged = s5(whole)
        assert judged.judgement == judgement
        assert "with rows: backward product at most" in judged.measured
        assert "the profile with rows does not show it" in judged.reason


class TestS8:
    """Four workers, a server on a node of its own."""

    def judged(self, evidence, step_s: float, model_bytes: int):
        def change(plan, run):
            steps = run.result.global_steps
            moved = steps * model_bytes
            workers = [
                replace(each, sent_bytes=moved, received_bytes=moved) for each in run.result.workers
            ]
            result = replace(run.result, workers=tuple(workers), train_s=steps * step_s)
            return replace(run, result=result)

        return s8(changed(evidence, change))

    def test_the_arithmetic_holds_and_what_was_published_does_not_follow(self, whole):
        judged = self.judged(whole, 1.9, 4 * NUM_WEIGHTS)
        assert judged.judgement == "does not hold here"
        assert "a step takes 1.90 s" in judged.measured
        assert "the arithmetic holds here: 4 workers' models at 350 MB/s take 1.54 s" in (
            judged.reason
        )
        assert (
            "the published 7.121 s do not follow from it, however it is read: 0.77 s for one"
            in (judged.reason)
        )

    def test_a_step_that_links_do_not_explain_is_told_apart(self, whole):
        judged = self.judged(whole, 9.0, 4 * NUM_WEIGHTS)
        assert judged.judgement == "does not hold here"
        assert "the arithmetic does not hold here" in judged.reason

    def test_it_holds_where_both_do(self, whole):
        judged = self.judged(whole, 8.0, 7_121 * 350_000 // 4)  # 7.121 s for four, at once
        assert judged.judgement == "holds"
        assert "the published 7.121 s follow from it: for 4 workers at one server" in judged.reason


@pytest.mark.parametrize(
    ("sync_s", "judgement", "per_step", "per_row"),
    [
        (40.0, "holds", "4.00 times as long;", "1.00 times as long (a tie"),
        (20.0, "holds", "2.00 times as long;", "0.50 times as long"),
        (9.0, "does not hold here", "0.90 times as long;", "0.23 times as long"),
    ],
)
def test_s1_is_judged_per_step_and_tells_what_a_row_takes(
    whole, sync_s, judgement, per_step, per_row
):
    """A step of sync takes a row of each of four workers, one of async a single row."""

    def change(plan, run):
        is_sync = plan.tags["strategy"] == "ps-sync"
        result = replace(
            run.result,
            global_steps=1000,
            samples=4000 if is_sync else 1000,
            train_s=sync_s if is_sync else 10.0,
        )
        return replace(run, result=result)

    judged = s1(changed(whole, change))
    assert judged.judgement == judgement
    steps, rows = judged.measured.split(" 1,000 rows take ")
    assert steps.startswith("1,000 global steps take 10 s (n=1) in async")
    assert per_step in steps
    assert per_row in rows
    assert "a mini-batch of each of the 4 workers" in judged.reason


class TestStragglers:
    """S3: one node with a quarter of a processor, three seeds, in full only."""

    def judged(self, folder, sync: tuple[float, ...], free: tuple[float, ...], warning: str = ""):
        """Judge seconds with a slow node, where equal ones take 10 s and all else holds."""

        def change(plan, run):
            result = run.result
            is_sync = plan.tags["strategy"] == "ps-sync"
            moved = {"bottleneck": 1 if is_sync else 2, "dense": 1000}.get(plan.group, 1)
            workers = tuple(replace(each, sent_bytes=moved * 10**9) for each in result.workers)
            seconds = result.train_s if plan.group != "unequal" else 10.0
            if plan.tags.get("node2") == 0.25:
                seconds = (sync if is_sync else free)[plan.repetition]
            warnings = (warning,) if warning else ()
            changes = {"train_s": seconds, "workers": workers, "warnings": warnings}
            return replace(run, result=replace(result, **changes))

        groups = ["bottleneck", "dense", "unequal"]
        return s3(changed(made_evidence(folder, "criteo-sparse", "full", groups), change))

    def test_it_holds_where_sync_became_slower_than_async_did(self, tmp_path):
        judged = self.judged(tmp_path, (20.0, 21.0, 22.0), (11.0, 12.0, 13.0))
        assert judged.judgement == "holds"
        assert (
            "with a quarter of a processor on node 2 the same steps take 2.10 (2.00 to 2.20, n=3) "
            "times as long in sync, 1.20 (1.10 to 1.30, n=3) times in async"
        ) in judged.measured

    def test_it_does_not_where_that_cannot_be_told(self, tmp_path):
        judged = self.judged(tmp_path, (20.0, 21.0, 22.0), (11.0, 12.0, 20.5))
        assert judged.judgement == "does not hold here"
        assert (
            "costs sync more (Jin et al.): a tie: the ranges of repetitions overlap"
            in judged.reason
        )

    def test_a_node_that_could_not_be_made_slow_says_nothing(self, tmp_path):
        told = (
            "cluster.cpus has no effect, nodes may use all cores: node2 = 0.25: no "
            "cgroup is mounted"
        )
        judged = self.judged(tmp_path, (10.0,) * 3, (10.0,) * 3, told)
        assert judged.judgement == "holds"
        assert f"stragglers: {told}" in judged.measured

    def test_a_quick_study_says_that_it_is_tested_in_full_only(self, whole):
        assert s3(whole).measured.endswith("stragglers: tested by --full only")


class TestSeeds:
    """Three at batch 1: what the first of them says is not what counts."""

    SHARES: ClassVar = {"ps-sync": (0.70, 0.73, 0.74), "ps-async": (0.76, 0.745, 0.735)}

    @pytest.fixture
    def full(self, tmp_path):
        def change(plan, run):
            share = self.SHARES[plan.tags["strategy"]][plan.repetition]
            seconds = (10.0, 20.0, 40.0)[plan.repetition]
            result = replace(
                run.result, test_accuracy=share, train_s=seconds, evaluation_s=2.0, data="files"
            )
            return replace(run, result=result)

        return changed(made_evidence(tmp_path, "criteo-sparse", "full", ["steps"]), change)

    def test_s2_is_judged_by_the_medians(self, full):
        judged = s2(full)
        assert judged.judgement == "holds"
        assert "73.00 % (70.00 to 74.00, n=3) in sync" in judged.measured
        assert "74.50 % (73.50 to 76.00, n=3) in async" in judged.measured

    def test_the_condition_tells_a_tie(self, full):
        assert (
            "74.50 % (73.50 to 76.00, n=3) against 73.00 % (70.00 to 74.00, n=3), a tie: the ranges"
            in accuracy_condition(full)
        )

    def test_the_table_has_medians_their_spread_and_how_many(self, full):
        table = time_and_accuracy(full)
        for row in table.frame.to_dicts():
            assert (row["training"], row["training_spread"]) == (20.0, 15.0)
            assert (row["evaluated"], row["n"]) == (22.0, 3)
        assert table.frame["accuracy"].to_list() == [0.73, 0.745]
        assert "Medians over n seeds" in table.note

    def test_a_figure_of_one_run_of_several_says_so(self, full):
        assert "the first of 3 seeds" in STUDY.figures["error-over-steps"](full).caption


def test_accuracies_stand_beside_the_share_of_the_larger_class(whole):
    def change(plan, run):
        return replace(run, result=replace(run.result, test_metrics={"larger_class": 0.744}))

    known = changed(whole, change)
    assert batch_times(known).frame["larger"].unique().to_list() == [0.744]
    for told in (s4(known).measured, accuracy_condition(known)):
        assert "; predicting the majority class alone gives 74.40 %" in told


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("network-received", "net_received_bytes_per_s"),
        ("disk-read", "disk_read_bytes_per_s"),
        ("disk-written", "disk_written_bytes_per_s"),
    ],
)
def test_resources_over_time_are_of_both_modes_and_every_node(whole, name, column):
    figure = STUDY.figures[name](whole)
    frame = figure.table.frame
    assert set(frame["run"]) == {"sync", "async"}
    assert frame["node"].n_unique() == 4
    assert frame[column].is_not_null().all()
