"""Faults as data: what is read, what is refused, and what a spec makes of it."""

import re

import pytest

from paceline.errors import SpecError
from paceline.faults import EXAMPLES, Fault
from paceline.spec import RunSpec

RING = {"workload": "logistic-mnist", "strategy": "ring", "num_workers": 3, "steps": 10}


def spec(**fields: object) -> RunSpec:
    return RunSpec.from_table({**RING, **fields})


@pytest.mark.parametrize(
    "text", [*EXAMPLES, "random:mtbf=6s,most=200,who=all", "kill:server0@2.5s"]
)
def test_a_fault_is_written_as_it_is_read(text: str):
    assert str(Fault.parse(text)) == text


def test_its_parts_are_as_they_were_meant():
    fault = Fault.parse("slow:worker2x4@10s+20s")
    assert (fault.who, fault.factor, fault.at_s, fault.lasts_s) == ("worker2", 4.0, 10.0, 20.0)
    assert Fault.parse("restart:worker1@step=200+3s").step == 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("explode:worker1@3s", "not KIND:WHO@WHEN"),
        ("kill:worker1", "not of the form kill:WHO@step=N"),
        ("kill:worker1@3", "not of the form"),
        ("kill:worker1@3s+2s", "restart:worker1 comes back"),
        ("stop:worker1@3s", "needs how long"),
        ("slow:worker1@3s+2s", "takes a factor"),
        ("slow:worker1x1@3s+2s", "above 1"),
        ("stop:worker1x2@3s+2s", "takes a factor"),
        ("cut:node1@3s+0s", "is no fault"),
        ("random:seed=3", "needs mtbf"),
        ("random:mtbf=0s", "needs mtbf"),
        ("random:mtbf=3s,often=yes", "often=yes is none of"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str):
    with pytest.raises(ValueError, match=re.escape(reason)):
        Fault.parse(text)


@pytest.mark.parametrize("strategy", ["ddp", "ring", "ps-sync"])
def test_a_link_can_be_cut_whatever_becomes_of_the_run(strategy: str):
    given = spec(fault="cut:node1@3s+1s", cluster="emulated", strategy=strategy)
    assert given.may_start_again == (strategy != "ddp")


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"fault": "kill:worker7@3s"}, "fault", "no seat worker7"),
        ({"fault": "cut:node4@3s+1s", "cluster": "emulated"}, "fault", "no node node4"),
        ({"fault": "cut:node0@3s+1s"}, "fault", "no link to cut"),
        ({"fault": "late:worker1@step=3"}, "fault", "late takes seconds"),
        ({"fault": [f"late:worker{i}@3s" for i in range(3)]}, "fault", "none could begin"),
        ({"fault": "kill:worker1@3s", "cluster": "inline"}, "fault", "inline cannot inject"),
        ({"fault": "restart:worker1@3s+1s", "strategy": "ddp"}, "fault", "takes no worker in"),
        ({"on_failure": "go-on", "strategy": "ddp"}, "on_failure", "ddp cannot go on"),
        ({"on_failure": "go-on", "strategy": "ddp"}, "on_failure", "choices: abort, restart"),
        ({"on_failure": "hope"}, "on_failure", "replace, restart"),
        ({"max_restarts": -1}, "max_restarts", "0"),
        (
            {"fault": "restart:worker1@3s+1s", "on_failure": "restart"},
            "fault",
            "all seats are started again: kill does it",
        ),
        ({"min_workers": 4}, "min_workers", "more than the run's 3 workers"),
    ],
)
def test_a_spec_refuses_what_it_cannot_do(fields: dict, field: str, reason: str):
    with pytest.raises(SpecError) as caught:
        spec(**fields)
    assert [each.field for each in caught.value.problems] == [field]
    assert reason in str(caught.value)


def test_a_spec_with_faults_is_lossless_as_toml(tmp_path):
    made = spec(fault=["kill:worker1@step=20", "random:mtbf=6s"], min_workers=2)
    path = tmp_path / "spec.toml"
    path.write_text(made.toml())
    assert RunSpec.read(path) == made


def test_a_loss_ends_a_run_unless_faults_are_asked_for():
    assert spec().when_lost == "abort"
    assert spec(fault="kill:worker1@3s").when_lost == "go-on"
    assert spec(fault="kill:worker1@3s", on_failure="abort").when_lost == "abort"
    assert spec(fault="kill:worker1@3s", strategy="ddp").when_lost == "abort"


def test_all_strategies_can_be_started_again():
    for strategy in ("single", "solo", "ddp", "ring", "ps-async"):
        workers = 1 if strategy == "single" else 3
        fields = {"steps": None, "worker_steps": 10} if strategy == "solo" else {}
        made = spec(
            strategy=strategy,
            num_workers=workers,
            on_failure="restart",
            max_restarts=0,
            **fields,
        )
        assert (made.when_lost, made.goes_on, made.max_restarts) == ("restart", False, 0)
    cut = spec(strategy="ddp", fault="cut:node1@3s+1s", cluster="emulated", on_failure="restart")
    assert not cut.goes_on
