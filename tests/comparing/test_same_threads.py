"""All workers of a comparison have the same number of threads, and the reader is told why."""

import pytest

from paceline.comparing import sides, with_same_threads
from paceline.workloads.base import ALL_CORES
from paceline.workloads.mnist import LogisticMnist

TABLE = {"workload": {"name": "logistic-mnist", "subset": "tenth"}, "num_workers": 2, "epochs": 10}
CORES = 8


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr("paceline.engine.threads.usable_cores", lambda: float(CORES))


def threads_of(specs):
    return [spec.threads for spec in specs]


def test_one_worker_alone_has_no_more_than_each_of_several(monkeypatch):
    monkeypatch.setattr(LogisticMnist, "most_threads", ALL_CORES)
    specs, said = with_same_threads(sides(TABLE))
    assert threads_of(specs) == [4, 4, 4, 4]
    assert said == ["Each worker computes with 4 threads: 2 workers share 8 cores."]


def test_what_the_workload_says_is_told(tmp_path):
    specs, said = with_same_threads(sides(TABLE))
    assert threads_of(specs) == [1, 1, 1, 1]
    assert said == ["Each worker computes with 1 thread: logistic-mnist gains from no more."]


def test_the_side_with_the_most_workers_decides(monkeypatch):
    monkeypatch.setattr(LogisticMnist, "most_threads", ALL_CORES)
    specs, _ = with_same_threads(sides(TABLE, ["ring"], {"num_workers": [1, 2, 4]}))
    assert threads_of(specs) == [2, 2, 2]


def test_what_the_user_says_stays():
    specs, said = with_same_threads(sides({**TABLE, "threads": 3}))
    assert threads_of(specs) == [3, 3, 3, 3]
    assert said == ["Each worker computes with 3 threads, as given."]
    specs, said = with_same_threads(sides(TABLE, ["ring"], {"threads": [1, 3]}))
    assert threads_of(specs) == [1, 3]
    assert said == ["Each worker computes with 1 or 3 threads, as given."]
