"""Claims of `lenet-scaling` on runs whose traffic is known."""

from dataclasses import replace

import pytest

from paceline.studies.lenet_scaling import loss_batch, n4, n5, table_3
from tests.studies.made_evidence import changed, made_evidence


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made_evidence(tmp_path_factory.mktemp("lenet"), "lenet-scaling")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return made_evidence(tmp_path_factory.mktemp("full"), "lenet-scaling", "full", ["batch"])


def with_traffic(sent: int, received: int):
    """Give node 0 this traffic and the others the reverse, so that sums over all are equal.

    A batch's traffic falls as it grows, and so does its time: all else that is claimed holds.
    """

    def change(plan, run):
        scale = 8 / plan.fields.get("batch", 8)
        node0, *others = run.result.nodes
        nodes = [replace(node0, net_sent_bytes=sent, net_received_bytes=received)]
        nodes += [
            replace(each, net_sent_bytes=received // 2, net_received_bytes=sent // 2)
            for each in others
        ]
        workers = [
            replace(each, sent_bytes=round(scale * 10**9), received_bytes=round(scale * 10**9))
            for each in run.result.workers
        ]
        train_s = scale * 100
        result = replace(run.result, nodes=tuple(nodes), workers=tuple(workers), train_s=train_s)
        return replace(run, result=result)

    return change


@pytest.mark.parametrize(
    ("received", "judgement", "told"),
    [(10_200_000, "holds", "by 2.0 %"), (20_000_000, "does not hold here", "by 50.0 %")],
)
def test_n5_compares_what_node_0_sent_with_what_node_0_received(whole, received, judgement, told):
    judged = n5(changed(whole, with_traffic(10_000_000, received)))
    assert judged.judgement == judgement
    assert f"what node 0 sends and receives differs {told} at most" in judged.measured


def test_n5_says_what_cannot_be_told_of_nodes_where_there_is_one(whole):
    def shared(plan, run):
        run = with_traffic(10_000_000, 10_000_000)(plan, run)
        return replace(run, result=replace(run.result, nodes=run.result.nodes[:1]))

    judged = n5(changed(whole, shared))
    assert judged.judgement == "holds"
    assert "whether node 0 sends what it receives" in judged.measured


class TestSeeds:
    """Three of each batch: what the first of them says is not what counts."""

    def right(self, evidence, shares: dict[int, tuple[float, ...]]):
        """Give batches the accuracies of their seeds; a batch takes the longer the smaller."""

        def change(plan, run):
            batch = plan.tags["batch"]
            share = shares.get(batch, (0.5, 0.51, 0.52))[plan.repetition]
            result = replace(run.result, test_accuracy=share, train_s=1e4 / batch)
            return replace(run, result=result)

        return changed(evidence, change)

    def test_n4_holds_where_all_seeds_of_the_smallest_batch_are_above(self, full):
        judged = n4(self.right(full, {8: (0.98, 0.97, 0.99), 1024: (0.9, 0.91, 0.92)}))
        assert judged.judgement == "holds"
        assert "batch 8: 98.00 % (97.00 to 99.00, n=3)" in judged.measured
        assert judged.measured.endswith("the most accurate is batch 8")

    def test_n4_does_not_where_only_the_first_of_them_is(self, full):
        shares = {8: (0.98, 0.90, 0.91), 16: (0.95, 0.96, 0.97), 1024: (0.9, 0.93, 0.94)}
        judged = n4(self.right(full, shares))
        assert judged.judgement == "does not hold here"
        assert judged.reason == "accuracy: a tie: the ranges of repetitions overlap"
        assert judged.measured.endswith("the most accurate is batch 16, a tie with 8")

    def test_n5_is_judged_by_the_medians_of_all_seeds(self, full):
        def change(plan, run):
            run = with_traffic(10_000_000, 10_000_000)(plan, run)
            slow = 10 if plan.repetition == 0 and plan.tags["batch"] == 1024 else 1
            return replace(run, result=replace(run.result, train_s=slow * run.result.train_s))

        judged = n5(changed(full, change))
        assert judged.judgement == "holds"
        assert "MB/s (6.0 to 60.0, n=3)" in judged.measured

    def test_what_shows_a_batch_says_how_many_seeds_it_shows(self, full):
        assert table_3(full).frame["n"].unique().to_list() == [3]
        assert "the first of 3 seeds" in loss_batch(full).caption
