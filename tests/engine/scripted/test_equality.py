"""What a script trains is the same however it is trained, where a strategy promises so."""

import pytest

from tests.engine.scripted.scripts import EXAMPLES, assert_same_model, run_script

MLP = EXAMPLES / "mlp.py"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("single")
    return run_script(out, MLP, "--double", "--batch=64", steps=20)


SPLIT = {"chunk_bytes": 3000, "servers": 2}


@pytest.mark.parametrize(
    ("strategy", "fields"), [("ring", {}), ("ps-sync", {}), ("ps-sync", SPLIT), ("ddp", {})]
)
def test_two_workers_equal_one_at_twice_the_batch(alone, tmp_path, strategy, fields):
    result = run_script(
        tmp_path, MLP, "--double", "--batch=32", strategy=strategy, fields=fields, steps=20
    )
    assert (result.global_steps, result.worker_steps, result.samples) == (20, 40, 1280)
    assert result.batch_size == 32
    assert_same_model(alone, result)
