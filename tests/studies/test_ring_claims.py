"""Claims of `ps-vs-ring` on runs whose rates are known: they hold where they should."""

from dataclasses import replace

import pytest

from paceline.results import BucketTotals
from paceline.studies import ring_claims
from paceline.studies.evidence import Evidence
from paceline.studies.grid import Planned
from tests.made_runs import made, stale

RESNET = "resnet50-cifar10"
MODEL_BYTES = 98 * 2**20
ALONE_PER_S = 50.0
LINK = "[cluster]\nname = 'emulated'\nlink = 2e9\n"


@pytest.fixture
def evidence_of(tmp_path):
    """Make evidence of (group, strategy, workers, rows a second, models that a worker sends)."""

    def make(*runs: tuple[str, str, int, float, float]) -> Evidence:
        plans, found = [], {}
        for group, strategy, count, per_s, models in runs:
            name = f"{group}-{strategy}-{count}"
            tags = {"workload": RESNET, "strategy": strategy, "num_workers": count}
            plans.append(Planned(name=name, group=group, tags=tags, repetition=0, fields={}))
            # So that each worker makes ten steps of 32 rows.
            rows = 32 * 10 * count
            run = made(
                tmp_path, strategy, num_workers=count, batch=32, rows=rows, seconds=rows / per_s,
                workload=RESNET, more=LINK, **(stale() if group == "ps" else {}),
            )  # fmt: skip
            bucket = BucketTotals(num_bytes=MODEL_BYTES, start_s=0.0, run_s=1.0, wait_s=0.5)
            sent = round(10 * models * MODEL_BYTES)
            workers = [replace(w, sent_bytes=sent, buckets=(bucket,)) for w in run.result.workers]
            result = replace(run.result, workers=tuple(workers))
            found[name] = replace(run, result=result)
        return Evidence(plans=plans, runs=found)

    return make


def test_speed_ups_are_over_one_worker_that_exchanges_nothing(evidence_of):
    judged = ring_claims.r1(
        evidence_of(
            ("ps", "ps-sync", 1, ALONE_PER_S / 2, 1.0),  # with its server: half as fast already
            ("ps", "ps-sync", 6, 1.5 * ALONE_PER_S, 1.0),
            ("ring", "ring", 1, ALONE_PER_S, 0.0),
            ("ring", "ring", 6, 5.5 * ALONE_PER_S, 5 / 3),
        )
    )
    assert judged.judgement == "holds"
    assert "PS 1.50, ring 5.50 of 6" in judged.measured


@pytest.mark.parametrize(("ps", "ring"), [(1.5, 4.0), (5.5, 5.5)])
def test_r1_does_not_hold_where_ring_levels_off_too_or_ps_does_not(evidence_of, ps, ring):
    judged = ring_claims.r1(
        evidence_of(
            ("ps", "ps-sync", 6, ps * ALONE_PER_S, 1.0),
            ("ring", "ring", 1, ALONE_PER_S, 0.0),
            ("ring", "ring", 6, ring * ALONE_PER_S, 5 / 3),
        )
    )
    assert judged.judgement == "does not hold here"


@pytest.mark.parametrize(("models", "judgement"), [(1.5, "holds"), (1.8, "does not hold here")])
def test_r3_holds_where_a_worker_sends_what_a_ring_needs(evidence_of, models, judgement):
    judged = ring_claims.r3(evidence_of(("ring", "ring", 4, 100.0, models)))
    assert judged.judgement == judgement
    assert f"4: {models:.2f}" in judged.measured


def test_a_servers_exchange_follows_the_computing_and_a_rings_hides_behind_it(evidence_of):
    evidence = evidence_of(("ps", "ps-sync", 6, 50.0, 1.0), ("ring", "ring", 6, 50.0, 5 / 3))
    server, ring = (ring_claims.ideal_step_s(evidence.first(group)) for group in ("ps", "ring"))
    computes_s = 32 / 51.5
    crosses_s = MODEL_BYTES * 8 / 2e9 * 1514 / 1448
    assert server == pytest.approx(computes_s + 6 * crosses_s, rel=0.02)  # and the last chunks
    assert ring == pytest.approx(max(computes_s, 5 / 3 * crosses_s))
