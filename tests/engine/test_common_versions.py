"""The newest version that all servers have kept is the one that they go back to."""

from pathlib import Path

import pytest
import torch

from paceline.engine.common_versions import CommonVersions
from paceline.errors import StoreError
from paceline.store.checkpoints import seat_state, snapshot_of
from paceline.store.runs import RunDir
from paceline.store.states import read_state, write_state

SERVERS = ("server0", "server1")


class Kept:
    """Servers that write snapshots, each under one name."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDir(folder)
        self.run.snapshots.mkdir()
        self.versions = CommonVersions(self.run, SERVERS)

    def write(self, server: str, version: int) -> None:
        values = torch.full((3,), float(version))
        write_state(seat_state(self.run.snapshots, server), {"version": version, "values": values})

    def keep(self, server: str, *versions: int) -> None:
        for version in versions:
            self.write(server, version)
            self.versions.kept(server)

    def laid_out(self) -> list[object]:
        files = [snapshot_of(self.run, each) for each in SERVERS]
        return [read_state(each)["version"] if each.exists() else None for each in files]

    def num_files(self) -> int:
        return sum(each.is_file() for each in self.run.snapshots.rglob("*"))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_all_go_back_to_the_newest_version_that_each_has(kept: Kept):
    kept.keep("server0", 0, 8, 16, 24)
    kept.keep("server1", 0, 16)
    assert kept.versions.agree() == 16
    assert kept.laid_out() == [16, 16]


def test_one_that_was_written_and_not_heard_of_counts(kept: Kept):
    kept.keep("server0", 0, 8)
    kept.keep("server1", 0)
    kept.write("server1", 8)
    assert kept.versions.agree() == 8
    assert kept.laid_out() == [8, 8]


def test_without_a_common_one_all_begin_as_at_first(kept: Kept):
    kept.keep("server0", 8)
    assert kept.versions.agree() == -1
    assert kept.laid_out() == [None, None]


def test_what_they_went_back_behind_is_not_gone_back_to_later(kept: Kept):
    """Version 8 of one server is of a past that the other has left."""
    kept.keep("server0", 0, 8)
    kept.keep("server1", 0)
    assert kept.versions.agree() == 0
    kept.keep("server1", 8)
    assert kept.versions.agree() == 0
    assert kept.laid_out() == [0, 0]


def test_it_is_agreed_again_when_another_one_is_started(kept: Kept):
    for each in SERVERS:
        kept.keep(each, 0, 8)
    assert kept.versions.agree() == 8
    kept.write("server0", 8)  # it keeps what it has just begun with
    assert kept.versions.agree() == 8
    assert kept.laid_out() == [8, 8]


def test_what_was_laid_out_is_not_let_go_as_what_lay_there_before(kept: Kept):
    """A server was started from nothing, or none could be: the older version's file was gone."""
    for each in SERVERS:
        kept.keep(each, 0, 8)
    assert kept.versions.agree() == 8
    kept.keep("server0", 16)
    kept.write("server1", 16)  # and is lost before it says so
    assert kept.versions.agree() == 16
    kept.keep("server0", 16)  # what it has just begun with
    assert kept.laid_out() == [16, 16]
    kept.keep("server1", 16)
    assert kept.versions.agree() == 16
    assert kept.laid_out() == [16, 16]


def test_no_more_is_held_than_may_be_needed(kept: Kept):
    for version in range(0, 80, 8):
        for each in SERVERS:
            kept.keep(each, version)
    assert kept.num_files() == 2
    kept.keep("server0", 80, 88)
    assert kept.num_files() == 4
    assert kept.versions.agree() == 72
    assert kept.num_files() == 2


def test_a_file_that_is_no_snapshot_is_said_and_not_gone_back_to(kept: Kept):
    for each in SERVERS:
        kept.keep(each, 0)
    broken = seat_state(kept.run.snapshots, "server1")
    broken.write_bytes(b"\xff" * 40)
    with pytest.raises(StoreError, match="server1-newest"):
        kept.versions.kept("server1")
    broken.write_bytes(b"\xff" * 40)
    assert kept.versions.agree() == 0
    assert kept.laid_out() == [0, 0]
