"""Caps on what a node may use of the processors."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.clusters.base import Job
from paceline.clusters.emulated.caps import Caps, _maker, _set_quota, remove_left
from paceline.clusters.emulated.describe import Emulated
from paceline.system.cgroups import quota_of


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


def test_a_quota_that_the_kernel_refuses_is_said_by_node(monkeypatch, tmp_path):
    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("paceline.clusters.emulated.caps.cpu_cgroups", lambda: [tmp_path])
    monkeypatch.setattr("paceline.clusters.emulated.caps._set_quota", refuse)
    caps = Caps({"node3": 0.5}, "test-caps")
    assert "node3 = 0.5" in caps.refused
    assert "Invalid argument" in caps.refused
    assert list(tmp_path.iterdir()) == []


def test_a_cgroup_that_lets_nobody_in_is_refused_before_seats_try(monkeypatch, tmp_path):
    monkeypatch.setattr("paceline.clusters.emulated.caps.cpu_cgroups", lambda: [tmp_path])
    monkeypatch.setattr("paceline.clusters.emulated.caps._set_quota", lambda *_: None)
    caps = Caps({"node0": 0.5}, "test-caps")
    assert "cgroup.procs" in caps.refused
    assert list(tmp_path.iterdir()) == []
    caps.enter("node0")  # there is no cap, and no failure


def test_a_machine_without_cgroups_refuses_and_does_not_fail(monkeypatch):
    monkeypatch.setattr("paceline.system.cgroups._read", lambda _: "")
    assert "no cgroup" in Caps({"node0": 0.5}, "test-caps").refused
    remove_left("test-caps")


@pytest.mark.parametrize("cpus", [5e-324, 1e-4, 1e308])
def test_a_share_beyond_all_bounds_is_for_the_kernel_to_refuse(cpus, tmp_path):
    (tmp_path / "cpu.max").touch()
    _set_quota(tmp_path, cpus)
    assert 10_000 <= int((tmp_path / "cpu.max").read_text().split()[1]) <= 1_000_000


def test_what_is_left_of_makers_that_are_gone_is_swept_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr("paceline.clusters.emulated.caps.cpu_cgroups", lambda: [tmp_path])
    namespace, pid, started = map(int, _maker().split("."))
    gone = f"paceline-x-{namespace}.{pid}.{started + 1}-node0"  # its pid is used again
    kept = {
        f"paceline-x-{_maker()}-node0",
        f"paceline-x-{namespace + 1}.{pid}.{started + 1}-node0",  # in another container
        f"paceline-x-{namespace}.{pid}.{started + 1}-node1",  # somebody is inside
        f"paceline-doctor-{pid}-abc",
        "another",
    }
    for name in (gone, *kept):
        (tmp_path / name).mkdir()
    (tmp_path / f"paceline-x-{namespace}.{pid}.{started + 1}-node1" / "somebody").touch()
    assert Caps({}, "next").refused == ""
    assert {folder.name for folder in tmp_path.iterdir()} == kept


def test_cgroups_of_a_killed_maker_are_removed_by_the_next(caps):
    script = "import os, signal\nfrom paceline.clusters.emulated.caps import Caps\n"
    script += "made = Caps({'node0': 0.5}, 'test-killed')\n"
    script += "print(made._folders['node0'], flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    command = [sys.executable, "-c", script]
    killed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    Caps({}, "test-next")
    assert not Path(killed.stdout.strip()).exists()
    assert all(folder.is_dir() for folder in caps._folders.values())


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
