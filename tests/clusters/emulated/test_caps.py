"""Caps on what a node may use of the processors."""

import os
import signal

import pytest

from paceline.cgroups import quota_of
from paceline.clusters.base import Job
from paceline.clusters.emulated.caps import Caps, _set_quota, remove_left
from paceline.clusters.emulated.describe import Emulated


@pytest.fixture
def caps():
    made = Caps({"node0": 0.5, "node1": 0.02}, "test-caps")
    if made.refused:
        pytest.skip(f"no cgroup may be made here: {made.refused}")
    yield made
    made.remove()


def test_each_node_has_its_quota_and_nothing_stays(caps):
    folders = list(caps._folders.values())
    assert [quota_of(folder) for folder in folders] == [0.5, 0.02]
    caps.remove()
    assert not any(folder.exists() for folder in folders)


def test_where_none_may_be_made_it_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr("paceline.clusters.emulated.caps.cpu_cgroups", lambda: [tmp_path / "gone"])
    caps = Caps({"node0": 0.5}, "test-caps")
    assert "gone" in caps.refused
    caps.enter("node0")
    caps.remove()


def test_a_folder_that_takes_no_quota_is_not_left(monkeypatch, tmp_path):
    monkeypatch.setattr("paceline.clusters.emulated.caps.cpu_cgroups", lambda: [tmp_path])
    assert Caps({"node0": 0.5}, "test-caps").refused
    assert list(tmp_path.iterdir()) == []


def test_version_2_takes_quota_and_period_in_one_file(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000")
    _set_quota(tmp_path, 0.25)
    assert quota_of(tmp_path) == 0.25


def test_what_a_killed_keeper_left_is_removed(caps):
    folders = list(caps._folders.values())
    remove_left("test-caps")
    assert not any(folder.exists() for folder in folders)


@pytest.mark.thorough
def test_a_keeper_that_hangs_is_killed_and_its_cgroups_are_removed(caps, tmp_path):
    cluster = Emulated(cpus=0.5)
    run_dir = tmp_path / "wait"
    (run_dir / "logs").mkdir(parents=True)
    seats = [seat for seat in cluster.seats(2, 0) if seat.role != "monitor"]
    crew = cluster.start(
        Job(
            run_dir=run_dir, run_key=b"caps-test-------", seats=seats, threads=1,
            entry="paceline.testing.clusters:entry",
        )
    )  # fmt: skip
    for line in crew.lines.values():
        assert line.receive(60) is not None
    mark = b"caps-test-------".hex()[:8]
    left = [folder.parent.glob(f"paceline-{mark}-*") for folder in caps._folders.values()]
    assert list(left[0])
    os.kill(crew._keeper.pid, signal.SIGSTOP)
    crew.end()
    assert not list(left[1])
