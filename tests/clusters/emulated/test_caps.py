"""Caps on what a node may use of the processors."""

import pytest

from paceline.cgroups import quota_of
from paceline.clusters.emulated.caps import Caps, _set_quota


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
