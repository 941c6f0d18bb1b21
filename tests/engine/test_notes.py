"""What the driver adds to an outcome: the machine of a seat that failed."""

import pytest

from paceline.comm.roster import Seat
from paceline.engine.notes import naming_host, note_host, note_uneven
from paceline.engine.progress import RunView
from paceline.outcome.accounts import WorkerAccount
from paceline.outcome.outcome import Outcome
from tests.engine.scripted.scripts import EXAMPLES, spec_of

SEATS = [Seat("worker", 0, "node0"), Seat("worker", 1, "node1")]


@pytest.mark.parametrize(
    ("labels", "reason", "told"),
    [
        ({"node1": "node1 (b)"}, "worker1: lost", "worker1: lost; it was on node1 (b)"),
        ({"node1": "node1 (b)"}, "worker1: node1 (b) is lost", "worker1: node1 (b) is lost"),
        ({"node1": "node1 (b)"}, "worker1: lost, on node1", "worker1: lost, on node1 (b)"),
        ({"node1": "node1 (b)"}, "node1 (b) is lost, on node1", "node1 (b) is lost"),
        ({}, "worker1: lost", "worker1: lost"),
    ],
)
def test_a_seat_that_failed_is_said_to_be_on_its_machine_once(labels, reason, told):
    outcome = Outcome(status="failed", reason=reason)
    note_host(SEATS, labels, "worker1", outcome)
    assert outcome.reason == told


@pytest.mark.parametrize(
    ("failed", "labels", "alerts"),
    [
        ("worker1", {"node1": "node1 (b)"}, ("worker1: lost, on node1 (b)",)),
        ("worker1", {}, ()),  # all are on this machine: it is said when they have ended
        (None, {"node1": "node1 (b)"}, ()),
    ],
)
def test_the_machine_of_a_seat_that_failed_is_named_while_the_others_end(failed, labels, alerts):
    outcome = Outcome(status="failed", reason="worker1: lost, on node1")
    view = naming_host(RunView.starting(""), SEATS, labels, failed, outcome)
    assert view.alerts == alerts
    assert naming_host(view, SEATS, labels, failed, outcome) == view  # once


@pytest.mark.parametrize(
    ("strategy", "steps", "settings", "is_said"),
    [
        ("ps-async", (10, 13), {}, True),
        ("ps-ssp", (13, 10), {}, True),
        ("ps-async", (10, 10), {}, False),
        ("ps-async", (10, 13), {"steps": 23}, False),
        ("ps-async", (10, 13), {"target_accuracy": 0.9}, False),
        ("ring", (10, 10), {}, False),  # the worker that ended says it
    ],
)
def test_scripts_with_different_numbers_of_batches_are_named(strategy, steps, settings, is_said):
    outcome = Outcome(status="finished")
    for rank, count in enumerate(steps):
        account = WorkerAccount(train_s=1.0, worker_steps=count, samples=count)
        outcome.totals[f"worker{rank}"] = account
    note_uneven(spec_of(EXAMPLES / "mlp.py", strategy=strategy, **settings), outcome)
    few, many = ("worker0", "worker1") if steps[0] < steps[1] else ("worker1", "worker0")
    said = f"workers made from 10 steps ({few}) to 13 ({many}): their scripts had different"
    assert [each.startswith(said) for each in outcome.warnings] == [True] * is_said
