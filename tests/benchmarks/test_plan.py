"""The benchmark of plans: its grid stays what it is, and what does not count is counted apart."""

import json
from collections import Counter
from dataclasses import asdict

import plan
import plan_cases
import plan_errors
import plan_measured
import pytest

from paceline.arithmetic.costs import NO_COSTS

ROW = {"nodes": 2, "link": "1gbit", "host_limited": False, "spread_of_runs": 0.0}
SITUATION = plan_cases.Situation("small", 2, "1gbit", "1ms", spread=0.3, slower_node=2.0)


def row(key, label, nominal, measured, **more):
    return {**ROW, "key": key, "label": label, "nominal": nominal, "measured": measured, **more}


def test_the_grid_has_every_number_of_nodes_link_and_latency():
    found = plan_cases.grid()
    assert len({each.key for each in found}) == len(found)
    assert len(found) * len(plan_cases.LABELS) >= 200
    assert {each.nodes for each in found} == {2, 3, 4, 6, 8, 16}
    assert {(each.nodes, each.latency) for each in found} == {
        (nodes, latency) for nodes in (2, 3, 4, 6, 8, 16) for latency in ("0", "1ms", "5ms")
    }
    for link in ("100mbit", "300mbit", "1gbit", "3gbit", "10gbit"):
        assert sum(each.link == link for each in found) >= 5
    assert sum(each.slower_link > 1 for each in found) >= 5
    assert sum(each.spread > 0 for each in found) >= 10
    assert sum(each.slower_node > 1 for each in found) >= 5
    assert {each.model for each in found} == {*plan_cases.MODELS}


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_wherever_one_stops_what_is_measured_is_a_sample_of_all(share):
    found = plan_cases.grid()
    begun = plan_cases.balanced(found)[: round(share * len(found))]
    for field in ("model", "nodes", "link", "latency", "spread"):
        whole, part = (Counter(asdict(e)[field] for e in each) for each in (found, begun))
        assert all(abs(part[value] - share * whole[value]) <= 2.5 for value in whole), field
    assert sorted(plan_cases.balanced(found), key=str) == sorted(found, key=str)


def test_stragglers_are_in_the_step_in_the_device_and_in_the_scenario():
    (case,) = (e for e in plan_cases.cases(SITUATION) if e.candidate.label == "ring")
    assert len(case.basis.step.factors) == plan_cases.NUM_FACTORS
    assert case.asked_for.scenario.slowness(2) == (1.0, 2.0)
    rates = case.asked_for.spec.rates()
    assert rates.varies
    assert rates.worker_factors == (1.0, 2.0)
    assert plan_measured.steps_of(case, 1e-3, 1.0, 1.0) == plan_cases.NUM_FACTORS


def test_predictions_follow_the_arithmetic_not_the_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    kept = {
        **asdict(SITUATION),
        "label": "ring",
        "per_s": [10.0, 10.2],
        "share": [0.97, 0.95],
        "host_limited": False,
        "dilation": 2.0,
        "costs": NO_COSTS.values(),
        "took_s": 5.0,
    }
    plan_measured.append(path, kept)
    (read,) = plan_measured.read(path)
    assert "predicted" not in kept
    assert read["predicted"] < read["nominal"] < 200
    assert read["measured"] == pytest.approx(10.1)
    assert plan_measured.is_counted(read)
    assert not plan.left_of(
        [e for e in plan_cases.cases(SITUATION) if e.candidate.label == "ring"], path
    )


def test_the_best_is_named_of_situations_where_all_counted_and_where_some_did():
    whole = [row("a", label, 1.0 + n, 1.0 + n) for n, label in enumerate(plan_cases.LABELS)]
    part = [row("b", "ring", 2.0, 1.0), row("b", "ps-async, 1 server", 1.0, 2.0)]
    assert plan_errors.best_named(whole + part) == (1, 2)
    assert plan_errors.best_named(whole + part, whole=True) == (1, 1)


def test_what_failed_does_not_count_and_is_run_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    failed = {**asdict(SITUATION), "label": "ring", "failed": "worker1: it broke"}
    path.write_text(json.dumps(failed) + "\n")
    (read,) = plan_measured.read(path)
    assert not plan_measured.is_counted(read)
    assert "FAILED: worker1: it broke" in plan_measured.line(read)
    (case,) = (e for e in plan_cases.cases(SITUATION) if e.candidate.label == "ring")
    assert plan.left_of([case], path) == [case]
