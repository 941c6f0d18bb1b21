"""A script survives the loss of a worker where no worker waits for another's gradients."""

import pytest

from paceline.errors import SeatFailed, SpecError
from tests.engine.scripted.scripts import EXAMPLES, run_script, spec_of

MLP = EXAMPLES / "mlp.py"
LONG = "--epochs=100000"


@pytest.mark.parametrize("who", ["worker0", "worker1"])
@pytest.mark.parametrize(
    ("strategy", "fields"), [("ps-async", {}), ("ps-ssp", {"staleness": 2, "servers": 2})]
)
def test_the_others_go_on_without_a_worker_that_is_killed(tmp_path, strategy, fields, who):
    result = run_script(
        tmp_path,
        MLP,
        LONG,
        strategy=strategy,
        fields=fields,
        num_workers=3,
        seconds=2.0,
        fault=f"kill:{who}@0.4s",
    )
    assert result.status == "finished"
    (noted,) = result.disturbances
    assert noted.reason == "killed by signal 9 (SIGKILL)"
    assert noted.updated_s is not None
    by_name = {each.name: each for each in result.workers}
    assert by_name[who].train_s < 1.5 < by_name["worker2"].train_s
    (warning,) = [each for each in result.warnings if "were left out" in each]
    assert f"the rows dealt to {who}" in warning


def test_where_workers_wait_for_each_other_a_loss_ends_the_run(tmp_path):
    with pytest.raises(SeatFailed, match="worker1"):
        run_script(tmp_path, MLP, LONG, strategy="ring", seconds=20, fault="kill:worker1@0.4s")


@pytest.mark.parametrize(
    ("strategy", "settings", "said"),
    [
        ("ring", {"on_failure": "go-on"}, "a script's ring cannot go on without a worker"),
        ("ps-sync", {"on_failure": "go-on"}, "a script's ps-sync cannot go on"),
        ("ps-async", {"on_failure": "replace"}, r"cannot be started again.*abort, go-on"),
        ("ps-async", {"fault": "restart:worker1@1s+1s"}, "takes no worker in"),
        ("ring", {"on_failure": "replace"}, r"cannot be started again"),
    ],
)
def test_what_cannot_be_survived_is_refused_and_nothing_is_advised_that_is(
    strategy, settings, said
):
    with pytest.raises(SpecError, match=f"(?s){said}") as caught:
        spec_of(MLP, strategy=strategy, **settings)
    for each in caught.value.problems:
        for choice in each.choices:
            spec_of(MLP, strategy=strategy, **{each.field: choice})
