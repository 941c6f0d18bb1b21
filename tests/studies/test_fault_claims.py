"""What `faults` says of its runs: who finished, how soon, and what became of the model."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.outcome.disturbed import Disturbance
from paceline.store.stored import StoredRun
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.faults import KILLED, LATE, NOTHING, STUDY, l11, outcome, r7, survived
from paceline.studies.grid import PlannedRun
from tests.studies.made_evidence import changed, made_evidence, part_of

STRUCK = Disturbance(
    who="worker1", fault="kill:worker1@5s", struck_s=5.0, known_s=5.5, updated_s=6.0
)


AGAIN = replace(STRUCK, lost_step=120, from_step=100, started_s=5.7, back_s=6.0, updated_s=7.0)


def disturbed(plan: PlannedRun, run: StoredRun) -> StoredRun:
    accuracy = 0.9 if plan.group == NOTHING else 0.895
    noted = () if plan.group == NOTHING else (STRUCK,)
    again = {}
    if noted and plan.tags["strategy"] in ("ddp", "single") and "killed" in plan.group:
        noted, again = (AGAIN,), {"attempts": ("before",)}
    changes = {"test_accuracy": accuracy, "disturbances": noted, **again}
    return replace(run, result=replace(run.result, **changes))


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    made = changed(made_evidence(tmp_path, "faults"), disturbed)
    ended = {name for name in made.runs if "a server killed" in name}
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
    assert "did not finish" in rows["ps-sync", "a server killed"]["outcome"]
    assert "not possible" in rows["ddp", LATE]["outcome"]
    assert ("ring", "a server killed") not in rows


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


def test_the_two_questions_are_answered(evidence: Evidence):
    assert "What becomes of the model" in outcome(evidence)
    assert list(STUDY.claims) == ["L11", "R7"]
