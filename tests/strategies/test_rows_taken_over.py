"""Workers are killed, and the others train on their rows: each row as often as the epochs say.

The parameters are the ledger: each row has one, and every time it is trained on adds 1 to it.
"""

from pathlib import Path

import pytest
from safetensors.torch import load_file

import paceline
from paceline.clusters.local import Local
from paceline.faults import Fault
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp
from paceline.training.optim import Sgd
from tests.sharing import run
from tests.strategies.odd_workloads import Ledger

ROWS = 480
EPOCHS = 6


def carried_out(out: Path, dies: str, **fields: object) -> Result:
    spec = RunSpec(
        **{
            "workload": Ledger(rows=ROWS, dies=dies),
            "strategy": PsAsync(),
            "cluster": Local(transport="zmq"),
            "optimizer": Sgd(lr=1.0),
            "num_workers": 3,
            "batch": 8,
            "epochs": EPOCHS,
            "on_failure": "go-on",
            "record": paceline.Record(tensorboard=False, monitor=False),
            **fields,
        }
    )
    return run(spec, out=out)


def counts(result: Result) -> list[int]:
    """How many times each row was trained on."""
    (values,) = load_file(RunDir(Path(result.run)).model).values()
    return [round(each) for each in values.tolist()]


@pytest.mark.parametrize("transport", ["shared", "zmq"])
def test_no_row_of_a_worker_that_dies_is_left_out_or_seen_twice(transport: str, tmp_path: Path):
    result = carried_out(tmp_path, "1@9", cluster=Local(transport=transport))
    assert counts(result) == [EPOCHS] * ROWS
    assert result.rows_lost == 0


@pytest.mark.parametrize("servers", [1, 2])
def test_nor_of_one_that_had_taken_over_and_dies_too(servers: int, tmp_path: Path):
    strategy = PsSsp(servers=servers, staleness=4, chunk_bytes=160)
    result = carried_out(tmp_path, "1@9,2@40", strategy=strategy)
    assert counts(result) == [EPOCHS] * ROWS
    assert {each.who for each in result.disturbances} == {"worker1", "worker2"}


def test_nor_of_one_that_is_started_again(tmp_path: Path):
    fault = (Fault.parse("restart:worker1@step=30+0.2s"),)
    result = carried_out(tmp_path, "", fault=fault, epochs=20)
    assert result.disturbances[0].back_s is not None
    assert counts(result) == [20] * ROWS
    assert result.rows_lost in (None, 0)


def test_nor_of_one_that_was_stopped_given_up_and_comes_back_as_new(tmp_path: Path):
    """What it had under way when it was stopped is refused, whatever becomes of its messages."""
    fault = (Fault.parse("stop:worker1@step=30+3s"),)
    result = carried_out(tmp_path, "", fault=fault, epochs=60, detect_s=1.0)
    (noted,) = result.disturbances
    assert noted.reason is not None
    assert noted.reason.startswith("stopped (SIGSTOP)")
    assert noted.back_s is not None
    assert counts(result) == [60] * ROWS
