"""Claims of `mnist-logistic` on runs whose figures are known: one mode above, or a tie."""

from dataclasses import replace

import pytest

from paceline.outcome.results import NodeUsage
from paceline.studies import mnist_claims, mnist_conditions
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.grid import PlannedRun
from tests.made_runs import made

ASYNC, SYNC = "ps-async", "ps-sync"


@pytest.fixture
def evidence_of(tmp_path):
    """Make a group of what node 0 and node 1 took, for each repetition of both modes."""

    def make(
        free: list[float], sync: list[float], others: float = 1.0, group: str = "resources"
    ) -> Evidence:
        plans, runs = [], {}
        for strategy, amounts in ((ASYNC, free), (SYNC, sync)):
            for number, amount in enumerate(amounts):
                name = f"{group}-{strategy}-{number}"
                tags = {"strategy": strategy}
                plans.append(
                    PlannedRun(name=name, group=group, tags=tags, repetition=number, fields={})
                )
                runs[name] = used(made(tmp_path, strategy, seconds=amount), amount, others)
        return Evidence(plans=plans, runs=runs)

    return make


def used(run, amount: float, others: float):
    """Say that node 0 used so much of everything, and the others so much."""
    nodes = [
        NodeUsage(
            name=f"node{index}",
            seats=(f"worker{index}",),
            cpu_percent_mean=value,
            memory_peak_bytes=round(1e6 * value),
            net_sent_bytes=round(1e6 * value),
            net_received_bytes=round(1e6 * value),
        )
        for index, value in enumerate((amount, others, others))
    ]
    return replace(run, result=replace(run.result, nodes=tuple(nodes)))


class TestSyncTakesLonger:
    def test_it_holds_where_every_run_of_sync_does(self, evidence_of):
        judged = mnist_claims.l2(evidence_of([9.0, 10.0, 10.5], [10.6, 11.0, 12.0]))
        assert judged.judgement == "holds"
        assert judged.reason == ""

    def test_where_repetitions_overlap_it_is_a_tie(self, evidence_of):
        judged = mnist_claims.l2(evidence_of([9.0, 10.0, 10.7], [10.6, 11.0, 12.0]))
        assert judged.judgement == "does not hold here"
        assert judged.reason == "a tie: the ranges of repetitions overlap"

    def test_of_one_run_each_two_per_cent_are_a_tie(self, evidence_of):
        judged = mnist_claims.l2(evidence_of([10.0], [10.1]))
        assert judged.judgement == "does not hold here"
        assert "less than 2 % apart" in judged.reason


class TestMemory:
    def test_a_little_more_is_not_more(self, evidence_of):
        assert mnist_claims.l7(evidence_of([100.0], [101.0])).judgement == "does not hold here"
        assert mnist_claims.l7(evidence_of([100.0], [110.0])).judgement == "holds"

    def test_the_condition_does_not_say_what_no_run_varied(self, evidence_of):
        evidence = evidence_of([100.0], [101.0])
        for tell in (mnist_conditions.memory_condition, mnist_conditions.cpu_condition):
            told = tell(evidence)
            assert "a tie" in told
            assert "was not varied" in told

    @pytest.mark.parametrize(("sync", "is_seen"), [(140.0, True), (100.5, False), (60.0, False)])
    def test_a_large_gradient_shows_when_each_report_is_right(self, evidence_of, sync, is_seen):
        small, large = evidence_of([100.0], [101.0]), evidence_of([100.0], [sync], group="large")
        both = Evidence(plans=[*small.plans, *large.plans], runs={**small.runs, **large.runs})
        told = mnist_conditions.memory_condition(both)
        assert f"Where it has 80 MB, 100 MB (n=1) in async, {sync:.0f} MB (n=1) in sync" in told
        assert ("once it is large" in told) == is_seen
        assert "was not varied" not in told


class TestNode0:
    def test_it_uses_more_than_node_1(self, evidence_of):
        assert mnist_claims.l17(evidence_of([50.0], [50.0], 10.0)).judgement == "holds"

    def test_as_much_is_not_more(self, evidence_of):
        judged = mnist_claims.l17(evidence_of([50.0], [50.0], 49.9))
        assert judged.judgement == "does not hold here"
        assert "ps-sync memory 1.00 times (a tie" in judged.measured


def test_dips_are_not_judged_by_a_handful_of_samples(tmp_path):
    run = made(tmp_path, SYNC)
    tags = {"strategy": SYNC, "num_workers": 3}
    plan = PlannedRun(name="pair", group="pair", tags=tags, repetition=0, fields={})
    with pytest.raises(Untestable, match=r"sampled at most 3\.3 times per epoch"):
        mnist_claims.l12(Evidence(plans=[plan], runs={"pair": run}))
