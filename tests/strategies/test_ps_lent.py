"""Large gradients are sent from the memory they are in: what is learnt is what is learnt anyway."""

from pathlib import Path

import pytest

import paceline
from paceline.clusters.local import Local
from paceline.spec import RunSpec
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing.strategies import QUIET, alone, assert_parameters_close
from paceline.workloads.mnist import LenetMnist
from tests.sharing import run


@pytest.mark.parametrize("overlap", [True, False])
def test_synchronous_training_by_large_messages_equals_one_worker(overlap, tmp_path: Path):
    spec = RunSpec(
        workload=LenetMnist(subset="tenth"),
        strategy=PsSync(servers=2, chunk_bytes=1 << 17, overlap=overlap),
        cluster=Local(transport="zmq"),
        optimizer=paceline.Sgd(lr=0.05),
        num_workers=2,
        batch=4,
        worker_steps=20,
        dtype="float64",
        threads=1,
        eval_samples=10,
        record=QUIET,
    )
    ours = run(spec, out=tmp_path)
    assert_parameters_close(ours, run(alone(spec), out=tmp_path), tolerance=1e-9)
