"""What `faults` says of its runs: who finished, how soon, and what became of the model."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.outcome.disturbed import Disturbance
from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.faults import (
    FAULTS,
    KILLED,
    LATE,
    NOTHING,
    SERVER,
    STRATEGIES,
    STUDY,
    in_short,
    l11,
    outcome,
    r7,
    remedies,
    survived,
)
from paceline.studies.grid import Grid, PlannedRun
from tests.studies.made_evidence import changed, made_evidence, part_of

STRUCK = Disturbance(
    who="worker1", fault="kill:worker1@5s", struck_s=5.0, known_s=5.5, updated_s=6.0
)

AGAIN = replace(STRUCK, lost_step=120, from_step=100, started_s=5.7, back_s=6.0, updated_s=7.0)
BACK = replace(STRUCK, who="server0", fault="restart:server0@5s+1s", updates_lost=99)
CUT = Disturbance(who="node1", fault="cut:node1@5s+5s", struck_s=5.0, ended_s=10.0)
# Who is given up behind a cut link: no fault names it.
BEHIND = Disturbance(who="worker2", struck_s=8.5, known_s=8.5, updated_s=9.0)


def disturbed(plan: PlannedRun, run: StoredRun) -> StoredRun:
    accuracy = 0.9 if plan.group == NOTHING else 0.895
    noted = () if plan.group == NOTHING else (STRUCK,)
    again = {}
    if plan.group == SERVER:
        noted = (BACK,)
    elif "link" in plan.group:
        noted = (CUT, BEHIND)
    if noted and plan.tags["strategy"] in ("ddp", "single") and "killed" in plan.group:
        noted, again = (AGAIN,), {"attempts": ("before",)}
    changes = {"test_accuracy": accuracy, "disturbances": noted, **again}
    return replace(run, result=replace(run.result, **changes))


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    made = changed(made_evidence(tmp_path, "faults"), disturbed)
    ended = {name for name in made.runs if f"{SERVER}-ps-sync" in name}
    missing = dict.fromkeys(ended, "server0 failed: killed")
    return replace(part_of(made, made.runs.keys() - ended), missing=missing)


def test_each_cell_says_whether_it_finished_and_what_it_cost(evidence: Evidence):
    rows = {(row["strategy"], row["fault"]): row for row in survived(evidence).frame.to_dicts()}
    ring = rows["ring", KILLED]
    assert (ring["outcome"], ring["known"], ring["updated"]) == ("finished", 0.5, 1.0)
    assert ring["lost"] == pytest.approx(0.005)
    ddp = rows["ddp", KILLED]
    assert ddp["outcome"] == "started again from a checkpoint, finished"
    assert (ddp["updated"], ddp["repeated"]) == (2.0, 20)
    assert ring["repeated"] is None
    assert "did not finish" in rows["ps-sync", SERVER]["outcome"]
    assert "not possible" in rows["ddp", LATE]["outcome"]
    assert "no server" in rows["ring", SERVER]["outcome"]
    assert len(rows) == len(STRATEGIES) * len(FAULTS)


def test_r7_holds_where_the_servers_workers_carry_on(evidence: Evidence):
    found = r7(evidence)
    assert found.judgement == "holds"
    assert found.reason == "started again from a checkpoint: ddp, single"
    assert "ddp" not in found.measured
    without = part_of(evidence, {name for name in evidence.runs if "killed-ps-sync" not in name})
    with pytest.raises(Untestable):  # those may be yet to come
        r7(without)
    ended = dict.fromkeys(evidence.runs.keys() - without.runs.keys(), "worker1 failed: killed")
    without = replace(without, missing={**evidence.missing, **ended})
    assert r7(without).judgement == "does not hold here"


def test_l11_needs_a_worker_that_took_part(evidence: Evidence):
    with pytest.raises(Untestable, match="took part"):
        l11(evidence)


def test_what_a_cut_link_took_is_timed_from_the_cut(evidence: Evidence):
    rows = {(row["strategy"], row["fault"]): row for row in survived(evidence).frame.to_dicts()}
    cut = rows["ring", "a link cut for 5 s"]
    assert (cut["known"], cut["updated"]) == (3.5, 4.0)


def test_a_server_that_came_back_says_what_it_lost(evidence: Evidence):
    rows = {(row["strategy"], row["fault"]): row for row in survived(evidence).frame.to_dicts()}
    assert rows["ps-async", SERVER]["undone"] == 99
    assert rows["ps-async", KILLED]["undone"] is None


def test_the_two_questions_are_answered(evidence: Evidence):
    told = outcome(evidence)
    assert "of 34 combinations of strategy and fault 33 finished, 33 of them at most one" in told
    assert "ps-async 90.0 %" in told
    assert "did not learn" not in told
    assert "Further below" not in told
    assert "to the next update: ps-async 1.00 s" in remedies(evidence)
    assert STUDY.conditions_title == "Shi's two questions"
    assert list(STUDY.claims) == ["L11", "R7"]


def test_what_cost_the_model_more_than_a_point_is_named(evidence: Evidence):
    def struck(plan: PlannedRun, run: StoredRun) -> StoredRun:
        is_hit = (plan.group, plan.tags["strategy"]) == (KILLED, "ring")
        changes = {"test_accuracy": 0.85} if is_hit else {}
        return replace(run, result=replace(run.result, **changes))

    told = outcome(changed(evidence, struck))
    assert f"Further below, in points: {KILLED} (ring 5.0). " in told


def by_updates(evidence: Evidence) -> Evidence:
    plans = [replace(each, fields={**each.fields, "steps": 4000}) for each in evidence.plans]
    return replace(evidence, plans=plans)


def test_runs_of_as_many_updates_are_judged_and_those_of_as_many_seconds_are_not(
    evidence: Evidence,
):
    def struck(plan: PlannedRun, run: StoredRun) -> StoredRun:
        is_hit = (plan.group, plan.tags["strategy"]) == (KILLED, "ring")
        return replace(run, result=replace(run.result, test_accuracy=0.85)) if is_hit else run

    assert "what a fault took of it is in the accuracy too; --set steps=N" in outcome(evidence)
    assert "at most one point holds here" in outcome(by_updates(evidence))
    worse = by_updates(changed(evidence, struck))
    assert "at most one point does not hold here" in outcome(worse)


def test_a_run_that_was_over_before_its_fault_says_nothing_of_it(evidence: Evidence):
    def over(plan: PlannedRun, run: StoredRun) -> StoredRun:
        is_hit = (plan.group, plan.tags["strategy"]) == (LATE, "ring")
        return replace(run, result=replace(run.result, disturbances=())) if is_hit else run

    told = outcome(by_updates(changed(evidence, over)))
    assert "33 finished, 32 of them at most one point" in told
    assert f"Over before its fault struck, and so none of these: ring ({LATE}). " in told


def test_what_came_to_nothing_is_in_the_table(evidence: Evidence):
    def lossy(plan: PlannedRun, run: StoredRun) -> StoredRun:
        return replace(run, result=replace(run.result, dropped_steps=2, rows_lost=640))

    table = survived(changed(evidence, lossy)).frame.to_dicts()
    rows = {(row["strategy"], row["fault"]): row for row in table}
    assert (rows["ring", KILLED]["dropped"], rows["ring", KILLED]["unseen"]) == (2, 640)
    assert rows["ring", NOTHING]["dropped"] is None


def test_one_row_per_strategy_says_whether_it_finished(evidence: Evidence):
    rows = {row["strategy"]: row for row in in_short(evidence).frame.to_dicts()}
    assert list(rows) == list(STRATEGIES)
    assert rows["ring"][KILLED] == "89.5 %"
    assert rows["ddp"][KILLED] == "89.5 %, again"
    assert rows["ps-sync"][SERVER] == "did not finish"
    assert rows["ring"][SERVER] is None


def test_a_strategy_that_never_learns_does_not_look_fine(evidence: Evidence):
    def unlearned(plan: PlannedRun, run: StoredRun) -> StoredRun:
        if plan.tags["strategy"] != "ps-async":
            return run
        return replace(run, result=replace(run.result, test_accuracy=0.1))

    told = outcome(changed(evidence, unlearned))
    assert "33 finished, 26 of them at most one point" in told
    assert "Undisturbed, ps-async did not learn" in told


def test_every_strategy_meets_every_fault_that_it_can():
    plans = Grid.read("faults").plan("quick")
    planned = {(plan.tags["strategy"], plan.group) for plan in plans}
    left_out = {(each, fault) for each in STRATEGIES for fault in FAULTS} - planned
    assert left_out == {
        *((each, SERVER) for each in ("ring", "ddp", "single")),
        *((each, fault) for each in ("ddp", "single") for fault in ("killed and restarted", LATE)),
        ("single", "two workers killed"),
    }
