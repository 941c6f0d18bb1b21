"""Claims, table and figures of `alexnet-scaling` on runs whose losses and nodes are known."""

from dataclasses import replace

import polars
import pytest

from paceline.studies.alexnet_scaling import STUDY, a2, a3, a4, loss, summary
from paceline.studies.evidence import Untestable
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
            "criterion: medians within 10 %; a tie: the ranges of repetitions overlap"
        )

    def test_medians_further_apart_are_not_alike(self, full):
        judged = a2(with_losses(full, {2: (1.0, 1.0, 1.0), 3: (1.01, 1.2, 1.3)}))
        assert judged.judgement == "does not hold here"
        assert judged.reason == "criterion: medians within 10 %"

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
    def change(plan, run):
        """Say that the first seed alone used twice as much with three machines."""
        odd = plan.tags["num_workers"] == 3 and plan.repetition == 0
        nodes = [
            replace(each, memory_peak_bytes=2 * each.memory_peak_bytes) if odd else each
            for each in run.result.nodes
        ]
        return replace(run, result=replace(run.result, nodes=tuple(nodes)))

    judged = a4(changed(real_of(full), change))
    assert judged.judgement == "holds"
    assert judged.reason.endswith("n=3")
    assert a3(full).reason.endswith("n=1")


class TestNodesOverTime:
    """Figures are of the runs that judge: replayed ones, where there are any."""

    NAMES = ("cpu", "memory", "network-sent", "network-received")

    @pytest.mark.parametrize("name", NAMES)
    def test_they_are_replayed_and_say_so(self, full, name):
        figure = STUDY.figures[name](with_ends(full, real_s=5.0, replayed_s=50.0))
        assert "of each node over time, replayed compute (Liu et al.)" in figure.title
        assert figure.table.frame["time_s"].max() == 50.0
        assert ("figure device-busy" in figure.caption) == (name == "cpu")

    @pytest.mark.parametrize("name", NAMES)
    def test_without_replayed_runs_they_are_real_and_say_so(self, full, name):
        figure = STUDY.figures[name](real_of(full))
        assert "of each node over time, real compute (Liu et al.)" in figure.title
        assert figure.caption == "Drawn is the first of 3 seeds. "

    def test_how_busy_replayed_devices_are_is_a_figure_of_its_own(self, full):
        figure = STUDY.figures["device-busy"](full)
        assert figure.table.frame["device_busy_percent"].unique().to_list() == [33.0]
        with pytest.raises(Untestable, match="compute is real in these runs"):
            STUDY.figures["device-busy"](real_of(full))

    def test_a4_tells_how_busy_devices_are_beside_the_cpu_of_exchanging(self, full):
        def change(plan, run):
            busy = 60.0 if plan.tags["num_workers"] == 2 else 30.0
            nodes = [
                replace(each, device_busy_percent=busy if plan.group == "replayed" else None)
                for each in run.result.nodes
            ]
            return replace(run, result=replace(run.result, nodes=tuple(nodes)))

        known = changed(full, change)
        assert "CPU 1.00 times, its device busy 0.50 times as long" in a4(known).measured
        assert "that of exchanging is compared" in a4(known).reason
        assert "device" not in a4(real_of(known)).measured
        assert "exchanging" not in a4(real_of(known)).reason


def real_of(evidence):
    return part_of(evidence, {name for name in evidence.runs if name.startswith("real")})


def with_ends(evidence, *, real_s: float, replayed_s: float):
    """Make the samples of nodes end at a time by which runs are told apart."""

    def change(plan, run):
        end_s = replayed_s if plan.group == "replayed" else real_s
        times = polars.col("time_s") / run.result.train_s * end_s
        run.nodes.with_columns(time_s=times).write_parquet(run.folder.nodes)
        return replace(run)

    return changed(evidence, change)
