"""Claims, table and figures of `alexnet-scaling` on runs whose losses and nodes are known."""

from dataclasses import replace

import polars
import pytest

from paceline.studies.alexnet_scaling import a2, a3, a4, loss, summary
from tests.studies.made_evidence import changed, made_evidence, part_of

LOSSES = {2: (1.0, 1.02, 1.04), 3: (1.3, 1.05, 1.01)}
"""Of each seed: by the first of each alone three machines would be 30 % above two."""


@pytest.fixture
def full(tmp_path):
    return made_evidence(tmp_path, "alexnet-scaling", "full")


def with_losses(evidence, losses: dict[int, tuple[float, ...]]):
    """Make each run's loss a line at what its cluster size and seed are given."""

    def change(plan, run):
        value = losses[plan.tags["num_workers"]][plan.repetition]
        rows = run.steps.with_columns(loss_mean=polars.lit(value))
        rows.write_parquet(run.folder.steps)
        return replace(run, result=replace(run.result, final_loss=value))

    return changed(evidence, change)


class TestLossCurves:
    def test_they_are_judged_by_the_medians_of_all_seeds(self, full):
        judged = a2(with_losses(full, LOSSES))
        assert judged.judgement == "holds"
        assert "1.020 (1.000 to 1.040, n=3) with two, 1.050 (1.010 to 1.300, n=3) with three" in (
            judged.measured
        )
        assert judged.reason == (
            "asked for: medians within 10 %; a tie: the ranges of repetitions overlap"
        )

    def test_medians_further_apart_are_not_alike(self, full):
        judged = a2(with_losses(full, {2: (1.0, 1.0, 1.0), 3: (1.01, 1.2, 1.3)}))
        assert judged.judgement == "does not hold here"
        assert judged.reason == "asked for: medians within 10 %"

    def test_the_table_has_medians_their_spread_and_how_many(self, full):
        table = summary(with_losses(full, LOSSES))
        rows = table.frame.filter(compute="real", strategy="ps-sync").to_dicts()
        assert [row["loss"] for row in rows] == [1.02, 1.05]
        assert [row["loss_spread"] for row in rows] == pytest.approx([0.02, 0.145])
        assert [row["n"] for row in rows] == [3, 3]
        assert table.frame.filter(compute="replayed")["n"].to_list() == [1] * 4
        assert any("1.050 ± 0.145" in cells for cells in table.cells())

    def test_a_figure_of_one_run_of_several_says_so(self, full):
        assert "the first of 3 seeds" in loss(full).caption


def test_where_there_is_only_real_compute_nodes_are_judged_by_all_its_seeds(full):
    real = part_of(full, {name for name in full.runs if name.startswith("real")})

    def change(plan, run):
        """Say that the first seed alone used twice as much with three machines."""
        odd = plan.tags["num_workers"] == 3 and plan.repetition == 0
        nodes = [
            replace(each, memory_peak_bytes=2 * each.memory_peak_bytes) if odd else each
            for each in run.result.nodes
        ]
        return replace(run, result=replace(run.result, nodes=tuple(nodes)))

    judged = a4(changed(real, change))
    assert judged.judgement == "holds"
    assert judged.reason.endswith("n=3")
    assert a3(full).reason.endswith("n=1")
