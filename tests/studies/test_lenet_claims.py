"""Claims of `lenet-scaling` on runs whose traffic is known."""

from dataclasses import replace

import pytest

from paceline.studies.lenet_scaling import n5
from tests.studies.made_evidence import changed, made_evidence


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made_evidence(tmp_path_factory.mktemp("lenet"), "lenet-scaling")


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
