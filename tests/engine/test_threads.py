"""How many threads a worker has where its workload does not say: measured, told and kept."""

import tomllib
from pathlib import Path

import pytest

import paceline
from paceline import RunSpec
from paceline.clusters.zygote import Zygote
from paceline.engine import driver
from paceline.engine.threads import decide, step_seconds

SMALL = """
import torch
from torch import nn

import paceline


class Small(paceline.Workload):
    def model(self):
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def data(self, split, dtype):
        rows = torch.randn(400, 8, dtype=dtype, generator=torch.Generator().manual_seed(0))
        return paceline.Tensors(rows, (rows[:, 0] > 0).long())


class Broken(Small):
    def loss(self, model, batch):
        raise ValueError("no such loss")
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    for module in ("engine.threads", "spec"):
        monkeypatch.setattr(f"paceline.{module}.usable_cores", lambda: 2.0)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(SMALL)

    def spec(name: str = "Small", **fields) -> RunSpec:
        table = {"workload": f"{tmp_path / 'mine.py'}:{name}", "steps": 5, **fields}
        return RunSpec.from_table(table)

    return spec


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as running:
        yield running


def test_steps_are_timed_with_one_thread_and_with_all(own, zygote):
    one_s, all_s = step_seconds(own(), 2, zygote)
    assert one_s > 0
    assert all_s > 0


def test_what_was_measured_is_told_and_kept_with_the_run(own, zygote, tmp_path):
    result = paceline.run(own(), out=tmp_path / "runs", zygote=zygote)
    assert result.threads in {1, 2}
    assert result.threads_why.startswith("measured, a step takes ")
    kept = tomllib.loads((Path(result.run) / "spec.toml").read_text())
    assert kept["threads"] == result.threads
    # So it repeats, and nothing is measured again.
    again = decide([RunSpec.read(Path(result.run) / "spec.toml")])
    assert (again.number, again.why) == (result.threads, "as given")


def test_a_trial_that_fails_leaves_it_to_the_run_to_say_why(own, zygote, tmp_path):
    assert step_seconds(own("Broken"), 2, zygote) is None
    with pytest.raises(paceline.PacelineError, match="no such loss"):
        driver.run(own("Broken"), out=tmp_path / "runs", zygote=zygote)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"threads": 2}, "as given"),
        ({"strategy": "ring", "num_workers": 2}, "2 workers share 2 cores"),
        ({"cluster": "inline"}, "1 worker has 2 cores"),
    ],
)
def test_where_there_is_no_choice_nothing_is_measured(own, fields, why):
    threads = decide([own(**fields)])
    assert threads.why == why
    assert not threads.is_measured
