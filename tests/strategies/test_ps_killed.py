"""A worker is killed in the middle of a push whose chunks leave early: the others go on."""

from pathlib import Path

import pytest

import paceline
from paceline.clusters.local import Local
from paceline.spec import RunSpec
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from tests.sharing import run
from tests.strategies.odd_workloads import Stricken

STEPS = 30


@pytest.mark.parametrize("transport", ["shared", "zmq"])
@pytest.mark.parametrize(
    "make",
    [PsSync, *(pytest.param(each, marks=pytest.mark.thorough) for each in (PsAsync, PsSsp))],
)
def test_the_others_go_on_when_a_worker_is_killed_in_mid_push(make, transport, tmp_path: Path):
    spec = RunSpec(
        workload=Stricken(),
        strategy=make(chunk_bytes=160, servers=2),
        cluster=Local(transport=transport),
        num_workers=3,
        worker_steps=STEPS,
        on_failure="go-on",
        record=paceline.Record(tensorboard=False, monitor=False),
    )
    result = run(spec, out=tmp_path)
    assert result.status == "finished"
    by_name = {each.name: each for each in result.workers}
    assert by_name["worker0"].worker_steps == by_name["worker2"].worker_steps == STEPS
