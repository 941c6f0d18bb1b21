"""A result survives JSON, and a file of a later version can still be read."""

import json

from paceline.outcome.facts import Facts
from paceline.outcome.results import NodeUsage, Result, WorkerTotals

RESULT = Result(
    run="runs/x",
    status="finished",
    workload="logistic-mnist",
    strategy="solo",
    cluster="local",
    meaning="2 independent workers",
    num_workers=2,
    batch_size=75,
    seed=1,
    worker_steps=80,
    test_metrics={"accuracy": 0.5},
    warnings=("one", "two"),
    nodes=(NodeUsage(name="node0", seats=("worker0", "worker1"), cpu_percent_mean=150.0),),
    workers=(WorkerTotals(name="worker0", worker_steps=40, samples=3000, train_s=1.5),),
)


def test_a_result_is_the_same_after_json():
    assert Result.from_table(json.loads(json.dumps(RESULT.table()))) == RESULT


def test_what_was_not_measured_is_null():
    table = RESULT.table()
    assert table["global_steps"] is None
    assert table["steps_per_s"] is None
    assert table["nodes"][0]["memory_mean_bytes"] is None
    assert table["workers"][0]["compute_s"] is None
    assert table["workers"][0]["sent_bytes"] is None


def test_fields_of_a_later_version_are_left_aside():
    table = json.loads(json.dumps(RESULT.table()))
    table["outlook"] = "network"
    table["nodes"][0]["gpu_percent"] = 3
    table["workers"][0]["staleness"] = 2
    assert Result.from_table(table) == RESULT


def test_fields_an_earlier_version_did_not_have_get_their_defaults():
    table = json.loads(json.dumps(RESULT.table()))
    del table["workers"], table["evaluation_s"], table["nodes"][0]["cpu_percent_mean"]
    old = Result.from_table(table)
    assert old.workers == ()
    assert old.nodes[0].cpu_percent_mean is None


def test_facts_survive_json():
    facts = Facts(
        workload="w",
        strategy="s",
        cluster="c",
        meaning="m",
        num_workers=1,
        batch_size=2,
        seed=3,
        target=None,
        seats={"node0": ["worker0"]},
        num_cores={"node0": 1.5},
        tensorboard=True,
    )
    assert Facts.from_table(json.loads(json.dumps(facts.table()))) == facts
