"""A worker is killed in the middle of a push whose chunks leave early: the others go on."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

import paceline
from paceline.clusters.local import Local
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.strategies.parameter_server.describe import PsAsync, PsSsp, PsSync
from paceline.training.optim import Sgd
from tests.sharing import run
from tests.strategies.odd_workloads import StrickenTally

STEPS = 30
STRICKEN_AT = 5


def applied(result: Result) -> set[float]:
    """How many pushes each of the parameters has; one number, where none was torn."""
    return {
        value
        for values in load_file(RunDir(Path(result.run)).model).values()
        for value in values.tolist()
    }


@pytest.mark.parametrize(
    ("make", "transport", "expected"),
    [
        # The update that the killed one was part of is refused whole.
        (PsSync, "shared", STEPS - 1),
        (PsSync, "zmq", STEPS - 1),
        # Nothing of the push that was under way, and all of every other.
        (PsAsync, "shared", 2 * STEPS + STRICKEN_AT - 1),
        (PsSsp, "zmq", 2 * STEPS + STRICKEN_AT - 1),
        pytest.param(PsAsync, "zmq", 2 * STEPS + STRICKEN_AT - 1, marks=pytest.mark.thorough),
        pytest.param(PsSsp, "shared", 2 * STEPS + STRICKEN_AT - 1, marks=pytest.mark.thorough),
    ],
)
def test_nothing_is_left_of_what_was_under_way_and_the_others_go_on(
    make, transport, expected, tmp_path: Path
):
    spec = RunSpec(
        workload=StrickenTally(stricken_at=STRICKEN_AT),
        strategy=make(chunk_bytes=160, servers=2),
        cluster=Local(transport=transport),
        optimizer=Sgd(lr=1.0),
        num_workers=3,
        worker_steps=STEPS,
        on_failure="go-on",
        record=paceline.Record(tensorboard=False, monitor=False),
    )
    result = run(spec, out=tmp_path)
    assert result.status == "finished"
    by_name = {each.name: each for each in result.workers}
    assert by_name["worker0"].worker_steps == by_name["worker2"].worker_steps == STEPS
    assert applied(result) == {float(expected)}
