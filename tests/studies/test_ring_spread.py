"""What is said of servers beside every worker, on runs whose rates and traffic are known."""

from dataclasses import replace

import pytest

from paceline.studies import ring_claims
from tests.studies.conftest import ALONE_PER_S, MODEL_BYTES
from tests.studies.made_evidence import changed


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (5.6, "levels off for 0 of 1 networks: the report's difference between PS and ring is one"),
        (3.5, "levels off for 1 of 1 networks: of the difference between PS and ring 50 %"),
    ],
)
def test_r1_says_how_much_of_it_is_one_servers_link(spread, words, evidence_of):
    judged = ring_claims.r1(
        evidence_of(
            ("ps", "ps-sync", 6, 1.5 * ALONE_PER_S, 1.0),
            ("spread", "ps-sync", 6, spread * ALONE_PER_S, 1.0),
            ("ring", "ring", 1, ALONE_PER_S, 0.0),
            ("ring", "ring", 6, 5.5 * ALONE_PER_S, 5 / 3),
        )
    )
    assert judged.judgement == "holds"  # of the report's one server
    assert f"PS with 6 servers {spread:.2f}" in judged.measured
    assert words in judged.reason


@pytest.mark.parametrize("group", ["ps", "spread", "ring"])
def test_what_this_host_limited_says_nothing_of_one_servers_link(group, evidence_of):
    evidence = evidence_of(
        ("ps", "ps-sync", 6, 1.5 * ALONE_PER_S, 1.0),
        ("spread", "ps-sync", 6, 3.5 * ALONE_PER_S, 1.0),
        ("ring", "ring", 1, ALONE_PER_S, 0.0),
        ("ring", "ring", 6, 5.5 * ALONE_PER_S, 5 / 3),
    )

    def limit(plan, run):
        return replace(run, result=replace(run.result, host_limited=plan.group == group))

    judged = ring_claims.r1(changed(evidence, limit))
    assert "nothing is judged; limited by this host, and left out: resnet50" in judged.reason
    assert "of the difference" not in judged.reason


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ({2: 1.0, 6: 5 / 3}, "it does not: the fullest link carries 2(N-1)/N models each way"),
        ({2: 1.0, 6: 5.0}, "as the ring's (within 10 %) in 1 of 2 settings only"),
        ({2: 0.5, 6: 1.0}, "as the ring's (within 10 %) in 0 of 2 settings only"),
    ],
)
def test_r2_judges_the_fullest_link_of_spread_servers(evidence_of, models, told):
    evidence = evidence_of(
        *(("ps", "ps-sync", count, 50.0, 1.0) for count in models),
        *(("spread", "ps-sync", count, 50.0, 1.0) for count in models),
    )

    def counted(plan, run):
        count = run.result.num_workers
        crossed = models[count] if plan.group == "spread" else count
        each_way = round(crossed * MODEL_BYTES * run.result.worker_steps / count)
        node = replace(
            run.result.nodes[0],
            seats=("server0",),
            net_sent_bytes=each_way,
            net_received_bytes=each_way,
        )
        result = replace(run.result, nodes=(node,), model_bytes=MODEL_BYTES)
        return replace(run, result=result)

    judged = ring_claims.r2(changed(evidence, counted))
    assert judged.judgement == "holds"  # of the report's one server
    assert told in judged.reason
    assert f"({models[6]:.2f} models)" in judged.reason
