"""Claims of `ps-vs-ring` on runs whose rates are known: they hold where they should."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.studies import ring_claims
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.grid import PlannedRun
from paceline.studies.ps_vs_ring import expected, one_time_line
from paceline.studies.ring_arithmetic import ideal_step_s
from paceline.studies.ring_links import ring_by_link, speed_up_links
from tests.made_runs import made, stale
from tests.studies.conftest import ALONE_PER_S, MIB, MODEL_BYTES, RESNET
from tests.studies.made_evidence import changed, made_evidence, part_of


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


@pytest.mark.parametrize(
    ("resnet_per_s", "judgement", "told"),
    [
        (20_000, "holds", "so in 1 of 1, a tie in 0"),
        (100_000, "does not hold here", "so in 0 of 1, a tie in 1"),
        (200_000, "does not hold here", "so in 0 of 1, a tie in 0"),
    ],
)
def test_r3_holds_where_networks_that_compute_longer_send_fewer_packets_a_second(
    tmp_path, resnet_per_s, judgement, told
):
    judged = ring_claims.r3(counted(tmp_path, resnet_per_s))
    assert judged.judgement == judgement
    assert "least computing per byte first: AlexNet 100,000" in judged.measured
    assert told in judged.reason


def test_r3_does_not_judge_packets_of_a_host_that_could_not_keep_up(tmp_path):
    def limit(plan, run):
        is_limited = run.result.workload != RESNET
        return replace(run, result=replace(run.result, host_limited=is_limited))

    judged = ring_claims.r3(changed(counted(tmp_path, 200_000), limit))
    assert judged.judgement == "holds"
    assert "packets are not judged" in judged.reason
    assert "limited by this host, and left out: AlexNet" in judged.reason


def counted(folder: Path, resnet_per_s: int) -> Evidence:
    """Make evidence of rings as they should be, of AlexNet with 100,000 packets a second."""

    def change(plan, run):
        result, count = run.result, run.result.num_workers
        per_s = resnet_per_s if result.workload == RESNET else 100_000
        packets = round(per_s * result.train_s)
        sent = round(2 * (count - 1) / count * MODEL_BYTES * result.workers[0].worker_steps)
        workers = tuple(replace(each, sent_bytes=sent) for each in result.workers)
        nodes = tuple(replace(each, packets_sent=packets) for each in result.nodes)
        return replace(run, result=replace(result, workers=workers, nodes=nodes))

    return changed(made_evidence(folder, "ps-vs-ring"), change)


def test_r3_says_why_packets_are_not_judged(evidence_of):
    judged = ring_claims.r3(evidence_of(("ring", "ring", 4, 100.0, 1.5)))
    assert "packets are not judged: packets of nodes were not counted" in judged.reason


def test_a_servers_exchange_follows_the_computing_and_a_rings_hides_behind_it(evidence_of):
    evidence = evidence_of(("ps", "ps-sync", 6, 50.0, 1.0), ("ring", "ring", 6, 50.0, 5 / 3))
    server, ring = (ideal_step_s(evidence.first(group)) for group in ("ps", "ring"))
    computes_s = 32 / 51.5
    crosses_s = MODEL_BYTES * 8 / 2e9 * 1514 / 1448
    assert server == pytest.approx(computes_s + 6 * crosses_s, rel=0.02)  # and the last chunks
    # A third of computing is forward: until then there is nothing to send.
    assert ring == pytest.approx(computes_s / 3 + 5 / 3 * crosses_s, rel=0.05)


def test_asynchronous_servers_are_not_planned_as_synchronous_ones(evidence_of):
    """A push that counts as a whole is answered when all of it is in, though chunks leave early."""
    evidence = evidence_of(("ps", "ps-sync", 6, 50.0, 1.0))

    def overlapped(in_step, **more):
        run = evidence.first("ps")
        made = replace(run, result=replace(run.result, in_step=in_step))
        strategy = {**run.spec["strategy"], "overlap": True, **more}
        made.__dict__["spec"] = {**run.spec, "strategy": strategy}
        return ideal_step_s(made)

    # Chunk by chunk it is what synchronous ones do; as a whole it differs.
    assert overlapped(False, refuse="chunk") == pytest.approx(overlapped(True))
    assert overlapped(False) != pytest.approx(overlapped(True), rel=0.01)


def test_the_last_chunks_of_large_ones_take_longer(evidence_of):
    evidence = evidence_of(("ps", "ps-sync", 6, 50.0, 1.0))

    def chunked(chunk_bytes):
        run = evidence.first("ps")
        made = replace(run, result=replace(run.result, in_step=True))
        strategy = {**run.spec["strategy"], "overlap": True, "chunk_bytes": chunk_bytes}
        made.__dict__["spec"] = {**run.spec, "strategy": strategy}
        return ideal_step_s(made)

    # One chunk of each of the six comes back when the last gradient is in.
    later_s = 6 * (8 - 1) * MIB * 8 / 2e9 * 1514 / 1448
    assert chunked(8 * MIB) - chunked(MIB) == pytest.approx(later_s)


def test_the_closed_form_is_shown_for_spread_servers_too(evidence_of):
    evidence = evidence_of(
        ("ps", "ps-sync", 6, 50.0, 1.0),
        ("spread", "ps-sync", 6, 250.0, 1.0),
        ("ring", "ring", 6, 270.0, 5 / 3),
    )
    (one,) = stale()["servers"]

    def spread_out(plan, run):
        if plan.group != "spread":
            return run
        servers = tuple(replace(one, name=f"server{index}") for index in range(6))
        made = replace(run, result=replace(run.result, servers=servers, in_step=True))
        strategy = {**run.spec["strategy"], "placement": "beside", "overlap": True}
        made.__dict__["spec"] = {**run.spec, "strategy": strategy}
        return made

    shown = expected(changed(evidence, spread_out))
    one_s, spread_s, ring_s = shown.frame.sort("ideal_s", descending=True)["ideal_s"]
    assert shown.frame["servers"].to_list() == [1, 6, 0]
    assert one_s > 2 * spread_s
    assert spread_s == pytest.approx(ring_s, rel=0.1)
    assert "strategy.overlap=false" in shown.note


class TestLinks:
    """Ring with six workers at 2, 8 and 32 Gbit."""

    @pytest.fixture
    def evidence(self, evidence_of) -> Evidence:
        return evidence_of(
            ("ps", "ps-sync", 6, 1.5 * ALONE_PER_S, 1.0),
            ("ring", "ring", 1, ALONE_PER_S, 0.0),
            ("ring", "ring", 6, 4.0 * ALONE_PER_S, 5 / 3),
            ("links", "8", 6, 5.5 * ALONE_PER_S, 5 / 3),
            ("links", "32", 6, 5.9 * ALONE_PER_S, 5 / 3),
        )

    def test_a_table_has_every_link_measured_and_predicted(self, evidence):
        rows = ring_by_link(evidence).frame.to_dicts()
        assert [row["link"] for row in rows] == [2, 8, 32]
        assert [row["measured"] for row in rows] == pytest.approx([4.0, 5.5, 5.9])
        assert rows[0]["predicted"] == pytest.approx(4.0, abs=0.1)
        assert rows[2]["predicted"] == pytest.approx(6.0, abs=0.1)
        assert rows[1]["ratio"] == pytest.approx(4 * rows[0]["ratio"])
        assert [row["near"] for row in rows] == ["no", "yes", "yes"]

    def test_a_figure_has_a_line_for_the_network(self, evidence):
        frame = speed_up_links(evidence).table.frame
        assert frame["run"].unique().to_list() == ["ResNet50"]
        assert frame["link"].to_list() == [2, 8, 32]

    def test_r1_says_of_each_network_from_which_link_on_it_holds(self, evidence):
        judged = ring_claims.r1(evidence)
        assert judged.judgement == "does not hold here"
        assert "ring 4.00 of 6, ring near proportional from 8 Gbit on" in judged.measured
        assert "table ring-by-link and figure speed-up-links" in judged.reason

    def test_a_network_that_never_scales_is_told(self, evidence_of):
        evidence = evidence_of(
            ("ps", "ps-sync", 6, ALONE_PER_S, 1.0),
            ("ring", "ring", 1, ALONE_PER_S, 0.0),
            ("ring", "ring", 6, 2 * ALONE_PER_S, 5 / 3),
            ("links", "8", 6, 3 * ALONE_PER_S, 5 / 3),
        )
        assert "ring not near proportional up to 8 Gbit" in ring_claims.r1(evidence).measured


@pytest.mark.parametrize(
    ("free_per_s", "judgement", "told"),
    [
        (1.5, "holds", "slower in 1 of 1 settings, a tie in 0"),
        (1.01, "does not hold here", "slower in 0 of 1 settings, a tie in 1"),
        (0.5, "does not hold here", "slower in 0 of 1 settings, a tie in 0"),
    ],
)
def test_r5_holds_where_async_is_more_than_a_little_faster(
    evidence_of, free_per_s, judgement, told
):
    judged = ring_claims.r5(
        evidence_of(
            ("ps", "ps-sync", 2, ALONE_PER_S, 1.0),
            ("ps", "ps-async", 2, free_per_s * ALONE_PER_S, 1.0),
        )
    )
    assert judged.judgement == judgement
    assert judged.reason == told


@pytest.mark.parametrize(
    ("free", "judgement", "told"),
    [
        ((0.70, 0.72, 0.74), "holds", "72.00 % (70.00 to 74.00, n=3) with a mean staleness of 0.6"),
        ((0.70, 0.81, 0.82), "does not hold here", "a tie: the ranges of repetitions overlap"),
    ],
)
def test_r6_judges_resnet20_by_all_of_its_seeds(tmp_path, free, judgement, told):
    def change(plan, run):
        shares = free if plan.tags["strategy"] == "ps-async" else (0.80, 0.81, 0.83)
        result = replace(run.result, test_accuracy=shares[plan.repetition])
        return replace(run, result=result)

    evidence = made_evidence(tmp_path, "ps-vs-ring", "full", ["stale-resnet20"])
    judged = ring_claims.r6(changed(evidence, change))
    assert judged.judgement == judgement
    assert judged.measured.startswith("resnet20-cifar10, 2 workers: ")
    assert told in judged.measured


def at_rates(tmp_path, losses: dict[float, tuple[float, float]]) -> Evidence:
    """Make `stale` and `stale-rate` of the test losses of async and sync."""
    plans, runs = [], {}
    for rate, pair in {0.01: (0.3, 0.4), **losses}.items():
        group = "stale" if rate == 0.01 else "stale-rate"
        for strategy, loss in zip(("ps-async", "ps-sync"), pair, strict=True):
            name = f"{group}-{strategy}-{rate}"
            tags = {"strategy": strategy, "num_workers": 3, "lr": rate}
            plans.append(PlannedRun(name=name, group=group, tags=tags, repetition=0, fields={}))
            run = made(tmp_path, strategy, **stale())
            runs[name] = replace(run, result=replace(run.result, test_loss=loss))
    return Evidence(plans=plans, runs=runs)


def test_the_rate_from_which_on_staleness_harms_is_told_where_it_was_seen(tmp_path):
    told = ring_claims.stale_condition(at_rates(tmp_path, {0.1: (0.2, 0.3), 3.0: (9.0, 0.5)}))
    assert "at 0.1 async is better (0.2 (n=1) against 0.3 (n=1))" in told
    assert "at 3 sync is better" in told
    assert "stale ones of a single mini-batch do worse" in told


def test_where_one_mode_is_better_at_every_rate_nothing_is_made_of_it(tmp_path):
    told = ring_claims.stale_condition(at_rates(tmp_path, {0.1: (0.2, 0.3), 3.0: (0.5, 0.6)}))
    assert "do worse" not in told


def test_without_other_rates_the_condition_was_not_varied(tmp_path):
    assert "was not varied" in ring_claims.stale_condition(at_rates(tmp_path, {}))


def test_one_time_line_shows_no_async_run_in_the_place_of_a_sync_one(tmp_path):
    whole = made_evidence(tmp_path, "ps-vs-ring", "full")
    missing = "ps-alexnet-cifar10-ps-sync-4-0"
    figure = one_time_line(part_of(whole, set(whole.runs) - {missing}))
    assert missing in whole.runs
    assert figure.table.frame["run"].unique(maintain_order=True).to_list() == [
        "2 workers",
        "6 workers",
    ]
    free = {name for name in whole.runs if "ps-async" in name}
    with pytest.raises(Untestable, match="strategy=ps-sync"):
        one_time_line(part_of(whole, free))
