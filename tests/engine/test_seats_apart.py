"""Runs whose seats do not see the run's folder: they leave what any other run leaves."""

from dataclasses import dataclass, replace
from pathlib import Path

import polars
import pytest

import paceline
from paceline.clusters.local import Local
from paceline.engine.progress import RunView
from paceline.errors import SeatFailed
from paceline.outcome.results import Result
from paceline.store.runs import RunDir
from paceline.strategies.parameter_server.describe import PsSync
from paceline.testing.workloads import Moons, Napping, Poisoned
from tests.sharing import run
from tests.sinks.apart import Apart


@dataclass
class Both:
    """The same run twice, with seats that see the folder and with seats that do not."""

    here: Result
    apart: Result

    def folders(self) -> tuple[RunDir, RunDir]:
        here, apart = (RunDir(Path(each.run)) for each in (self.here, self.apart))
        return here, apart


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    spec = paceline.RunSpec(
        workload=Moons(),
        strategy=PsSync(),
        cluster=Local(),
        num_workers=2,
        steps=120,
        eval_every=50,
        record=paceline.Record(loss="all", interval_s=0.01, monitor_s=0.02),
    )
    out = tmp_path_factory.mktemp("runs")
    return Both(*(run(replace(spec, cluster=cluster), out=out) for cluster in (Local(), Apart())))


def names_in(folder: RunDir) -> set[str]:
    """Name all files but events, whose names tell when they were written."""
    found = {str(each.relative_to(folder.path)) for each in folder.path.rglob("*")}
    return {each for each in found if not each.startswith(("tensorboard/", "source"))}


def test_the_same_files_are_there(both: Both):
    here, apart = both.folders()
    assert names_in(here) == names_in(apart)
    wanted = {"model.safetensors", "losses.parquet", "logs/server0.log", "logs/monitor0.log"}
    assert wanted <= names_in(apart)


def test_the_model_is_the_same_to_the_bit(both: Both):
    here, apart = both.folders()
    assert here.model.read_bytes() == apart.model.read_bytes()


def test_every_loss_and_every_evaluation_is_the_same(both: Both):
    here, apart = both.folders()
    assert polars.read_parquet(here.losses).equals(polars.read_parquet(apart.losses))
    ours, theirs = (polars.read_parquet(each.evaluations).drop("time_s") for each in (here, apart))
    assert ours.equals(theirs)


def test_no_row_is_missing(both: Both):
    for folder in both.folders():
        steps = polars.read_parquet(folder.steps)
        for rows in steps.partition_by("seat"):
            assert rows["count"].sum() == 120
            assert rows["worker_steps"].to_list() == rows["count"].cum_sum().to_list()
        nodes = polars.read_parquet(folder.nodes)
        assert {"starting", "training"} <= set(nodes["phase"])
    assert both.apart.warnings == both.here.warnings


def test_the_model_can_be_drawn(both: Both):
    here, apart = (len(list(each.tensorboard.rglob("graph/*"))) for each in both.folders())
    assert here == apart == 1


def test_what_a_seat_printed_before_it_failed_is_in_its_log(tmp_path: Path):
    spec = paceline.RunSpec(workload=Poisoned(), cluster=Apart(), steps=5000)
    with pytest.raises(SeatFailed) as caught:
        run(spec, out=tmp_path)
    assert "Traceback" in caught.value.log_tail
    assert "workloads.py" in RunDir(Path(caught.value.result.run)).log_tail("worker0")


def test_a_worker_that_is_stuck_is_told_of_with_its_place(tmp_path: Path):
    until = tmp_path / "go-on"

    def watch(view: RunView) -> None:
        if any("in phase compute" in each for each in view.alerts):
            until.touch()

    spec = paceline.RunSpec(
        workload=Napping(until=str(until)),
        cluster=Apart(),
        steps=60,
        stuck_s=0.5,
        record=paceline.Record(tensorboard=False, model=False),
    )
    result = run(spec, out=tmp_path / "runs", watch=watch)
    assert result.status == "finished"
    (told,) = [each for each in result.warnings if "in phase compute" in each]
    assert "in _nap from workloads.py:" in told
    assert 'workloads.py", line ' in RunDir(Path(result.run)).seat_log("worker0").read_text()
