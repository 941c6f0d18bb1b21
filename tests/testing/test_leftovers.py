"""What counts as left behind."""

import fcntl
import os
from pathlib import Path

from paceline.testing.leftovers import locks_below


def test_only_locks_on_files_below_the_folder_count(tmp_path: Path):
    mine, other = tmp_path / "mine" / "deep", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    assert locks_below(tmp_path) == []
    with (other / "file").open() as elsewhere, (mine / "file").open() as here:
        fcntl.flock(elsewhere, fcntl.LOCK_EX)
        assert locks_below(mine) == []
        fcntl.flock(here, fcntl.LOCK_EX)
        (found,) = locks_below(tmp_path / "mine")
        assert str(os.getpid()) in found.split()
        assert len(locks_below(tmp_path)) == 2
    assert locks_below(tmp_path) == []
