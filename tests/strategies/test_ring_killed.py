"""A worker is killed while its gradients are half written, half on their way: the others go on."""

from pathlib import Path

import pytest

import paceline
from paceline.clusters.local import Local
from paceline.spec import RunSpec
from paceline.strategies.all_reduce.describe import Ring
from tests.sharing import run
from tests.strategies.odd_workloads import Stricken

STEPS = 30


@pytest.mark.parametrize("transport", ["shared", "zmq"])
def test_the_others_go_on_when_a_worker_is_killed_while_it_writes(transport, tmp_path: Path):
    spec = RunSpec(
        workload=Stricken(),
        strategy=Ring(bucket_bytes=160, check_every=1),  # or the run fails where ranks differ
        cluster=Local(transport=transport),
        num_workers=3,
        worker_steps=STEPS,
        on_failure="go-on",
        record=paceline.Record(tensorboard=False, monitor=False),
    )
    result = run(spec, out=tmp_path)
    assert result.status == "finished"
    by_name = {each.name: each for each in result.workers}
    assert by_name["worker0"].worker_steps == by_name["worker2"].worker_steps
    assert result.dropped_steps == 2  # that of the death, of both that were left
    assert result.global_steps == by_name["worker0"].worker_steps - 1
    assert result.rows_lost is not None
    assert result.rows_lost > 0
