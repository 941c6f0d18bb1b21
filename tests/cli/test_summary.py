"""What is printed of a result, whatever happened to the run."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from paceline.cli.summary import print_how_to_go_on, print_result
from paceline.outcome.disturbed import Disturbance
from paceline.store.checkpoints import folder_of
from paceline.store.runs import RunDir
from tests.made_runs import made, stale


@pytest.fixture
def printed(monkeypatch):
    """What is printed, whatever other tests of this process did to its output."""
    file = io.StringIO()
    console = Console(file=file, highlight=False, width=10_000)
    monkeypatch.setattr("paceline.cli.summary.wide_console", lambda: console)
    return file


def test_a_server_that_made_no_update_is_shown_with_a_dash(tmp_path, printed):
    (server,) = stale()["servers"]
    idle = replace(server, updates=0, queue_s=0.1)
    print_result(made(tmp_path, "ps-async", servers=(idle,), global_steps=0).result)
    lines = printed.getvalue().splitlines()
    assert ["server0", "0", "0", "0", "5.0", "%", "-"] in [each.split() for each in lines]


def test_what_being_started_again_cost_is_shown(tmp_path, printed):
    noted = Disturbance(who="worker1", struck_s=2.0, updated_s=5.5, lost_step=9, from_step=4)
    print_result(made(tmp_path, attempts=("a", "b"), disturbances=(noted,)).result)
    assert "started again  2x after a loss, which cost 3.5 s" in printed.getvalue()


def kills(count):
    return tuple(
        Disturbance(who="worker1", fault=f"kill:worker1@{n}s", struck_s=n)
        for n in range(1, count + 1)
    )


def test_a_fault_that_struck_is_told_with_what_it_cost(tmp_path, printed):
    print_result(made(tmp_path, disturbances=kills(2), goodput=0.9, dropped_steps=4).result)
    text = " ".join(printed.getvalue().split())
    assert "at 1.0 s kill:worker1@1s struck at 2.0 s kill:worker1@2s struck" in text
    assert "goodput 90 % of all workers' time, 4 steps dropped" in text


def test_of_many_faults_their_number_is_told(tmp_path, printed):
    print_result(made(tmp_path, disturbances=kills(200), goodput=0.5).result)
    assert "200 times; paceline explain tells of each" in printed.getvalue()
    assert "kill:worker1@7s" not in printed.getvalue()


def test_a_run_with_a_checkpoint_says_how_to_go_on(tmp_path, printed):
    result = made(tmp_path, status="failed").result
    print_how_to_go_on(result)
    assert printed.getvalue() == ""
    folder_of(RunDir(Path(result.run)), 120).mkdir(parents=True)
    print_how_to_go_on(result)
    assert f"paceline resume {result.run}" in printed.getvalue()


def test_samples_that_nothing_counted_are_shown_with_a_dash(tmp_path, printed):
    print_result(made(tmp_path, "own", samples=0, samples_per_s=0.0).result)
    words = printed.getvalue().split()
    assert words[words.index("samples") - 1] == "-"
    assert words[words.index("samples/s") - 1] == "-"


def test_what_auto_chose_is_shown(tmp_path, printed):
    (worker, *others) = made(tmp_path).result.workers
    chosen = replace(worker, algorithm="halving", round_trip_s=0.0021)
    print_result(replace(made(tmp_path).result, workers=(chosen, *others)))
    assert "halving, chosen by auto: a round trip took 2.10 ms" in printed.getvalue()
