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
from paceline.errors import Interrupted, Problem, SeatFailed, SpecError
from paceline.planning import checked

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
    assert plan_measured.steps_of(case, 1e-3, 1.0, 1.0) > plan_cases.NUM_FACTORS


def test_predictions_follow_the_arithmetic_not_the_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    plan_measured.append(path, KEPT)
    (read,) = plan_measured.read(path)
    assert "predicted" not in KEPT
    assert read["predicted"] < read["nominal"] < 200
    assert read["measured"] == pytest.approx(10.1)
    assert plan_measured.is_counted(read)
    assert not plan.left_of([ring()], path)


KEPT = {
    **asdict(SITUATION),
    "label": "ring",
    "per_s": [10.0, 10.2],
    "share": [0.97, 0.95],
    "host_limited": False,
    "dilation": 2.0,
    "costs": NO_COSTS.values(),
    "took_s": 5.0,
}
EFFORT = plan_measured.Effort(repeat=1)


def ring():
    (case,) = (e for e in plan_cases.cases(SITUATION) if e.candidate.label == "ring")
    return case


@pytest.mark.parametrize(
    ("error", "key", "told"),
    [
        (SeatFailed("worker1", "it broke"), "failed", "worker1 failed: it broke"),
        (ZeroDivisionError("float division"), "failed", "ZeroDivisionError: float division"),
        (OSError("not empty"), "failed", "OSError: not empty"),
        (SpecError([Problem("cluster", "emulated", "not here")]), "refused", "not here"),
    ],
)
def test_whatever_goes_wrong_is_what_came_of_that_case(monkeypatch, error, key, told):
    def fail(*_):
        raise error

    monkeypatch.setattr(plan_measured, "run_case", fail)
    row = plan_measured.measured(ring(), EFFORT, None)
    assert told in row[key]
    assert row["commit"] == plan_measured.commit()


@pytest.mark.parametrize("stop", [Interrupted("stopped"), KeyboardInterrupt()])
def test_who_stops_it_stops_it_and_is_told_what_there_is(monkeypatch, tmp_path, capsys, stop):
    def interrupt(*_):
        raise stop

    path = tmp_path / "rows.jsonl"
    plan_measured.append(path, KEPT)
    monkeypatch.setattr(plan_measured, "run_case", interrupt)
    monkeypatch.setattr("sys.argv", ["plan.py", str(path), "--situations", "1", "--write"])
    assert plan.main() == 1
    told = capsys.readouterr().out
    assert "stopped: what is there counts" in told
    assert "half of 1 emulated cases" in told
    assert "nothing written: 1 cases counted, and 40 are needed" in told
    assert len(path.read_text().splitlines()) == 1


def test_what_did_not_count_is_run_again_where_that_is_asked_for(tmp_path):
    path, refused = tmp_path / "rows.jsonl", tmp_path / "refused.jsonl"
    plan_measured.append(path, {**KEPT, "host_limited": True})
    assert plan.left_of([ring()], path) == []
    assert plan.left_of([ring()], path, again=True) == [ring()]
    plan_measured.append(path, KEPT)
    assert plan.left_of([ring()], path, again=True) == []
    plan_measured.append(refused, {**asdict(SITUATION), "label": "ring", "refused": "no"})
    assert plan.left_of([ring()], refused, again=True) == []


def counted(number: int):
    """One of four strategies in a situation of its own."""
    return {
        **ROW,
        **asdict(SITUATION),
        "key": str(number // 4),
        "label": plan_cases.LABELS[number % 4],
        "nodes": (2, 3, 4, 6, 8, 16)[number % 6],
        "link": ("100mbit", "10gbit")[number % 2],
        "measured": 100.0,
        "predicted": 100.0 + number % 8,
        "nominal": 110.0,
        "dilation": 1.0,
        "took_s": 5.0,
    }


def test_what_is_shipped_is_read_back_with_its_range(monkeypatch, tmp_path, capsys):
    rows = [counted(number) for number in range(120)]
    assert not plan_errors.write(rows[:39], tmp_path)
    assert not list(tmp_path.iterdir())
    failed = {**asdict(SITUATION), "key": "x", "label": "ring", "failed": "it broke"}
    assert plan_errors.write([*rows, failed], tmp_path)
    assert str(tmp_path / "checked.toml") in capsys.readouterr().out
    monkeypatch.setattr(checked.resources, "files", lambda _: tmp_path)
    read = checked.checked()
    assert read == plan_errors.summary([*rows, failed])
    assert (read.cases, read.left_out, read.most_nodes) == (120, 1, 16)
    assert read.worst_error == pytest.approx(0.07)
    assert "1 more cases do not count" in read.sentence
    for part in ("2 to 16 nodes", "100 Mbit/s to 10 Gbit/s", "up to 1 ms", "ps-async (1 server)"):
        assert part in read.scope


def test_errors_are_told_by_strategy_and_link_together(capsys):
    assert plan_errors.tell([counted(number) for number in range(120)])
    told = capsys.readouterr().out
    assert "label, link" in told
    assert "ring, 100mbit" in told
    assert "met" in told


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
    assert plan.left_of([ring()], path) == [ring()]
