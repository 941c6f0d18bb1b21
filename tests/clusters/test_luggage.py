"""A user's files arrive as they were sent, in a private folder, and nowhere else."""

import base64
import hashlib
import os
import signal
import stat
import tempfile

import pytest

from paceline.clusters import luggage, sent_folders
from paceline.clusters.luggage import Packed, Unpacked, Unwelcome
from paceline.comm.keeper_words import Carry


@pytest.fixture
def unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = Unpacked()
    yield made
    made.remove()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("num_bytes", [0, 10, 1 << 16, 200_000])
def test_a_file_of_any_length_arrives_whole_and_private(unpacked, num_bytes):
    data = os.urandom(num_bytes)
    for word in Packed(path="0/pkg/a.py", name="/home/me/pkg/a.py", data=data).words():
        unpacked.take(word)
    file = unpacked.folder / "0" / "pkg" / "a.py"
    assert file.read_bytes() == data
    assert stat.S_IMODE(unpacked.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["../a.py", "0/../../a.py", "/a.py", "", "0/\0"])
def test_nothing_is_written_outside_of_the_folder(unpacked, path):
    with pytest.raises(Unwelcome, match="not below the folder"):
        unpacked.take(carry(path))


def test_what_is_damaged_or_too_much_is_refused(unpacked, monkeypatch):
    with pytest.raises(Unwelcome, match="arrived damaged"):
        unpacked.take(carry("0/a.py", digest="0" * 64))
    with pytest.raises(Unwelcome, match=r"0/b\.py"):
        unpacked.take(Carry(path="0/b.py", name="b.py", data="?"))
    monkeypatch.setattr(luggage, "MOST_FILES", 2)
    unpacked.take(carry("0/c.py"))
    with pytest.raises(Unwelcome, match="more than 2 files"):
        unpacked.take(carry("0/d.py"))


def carry(path, digest=None):
    text = base64.b64encode(b"x = 1").decode()
    return Carry(
        path=path, name=path, data=text, digest=digest or hashlib.sha256(b"x = 1").hexdigest()
    )


def test_a_folder_that_nobody_holds_any_more_is_removed_by_who_comes_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ready, tell = os.pipe()
    if not (pid := os.fork()):
        (sent_folders.make_folder() / "a.py").write_text("x = 1")
        os.write(tell, b"!")
        signal.pause()
    os.read(ready, 1)
    sent_folders.sweep()  # it is held
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    sent_folders.sweep()
    assert [*tmp_path.iterdir()] == []


def test_what_only_has_such_a_name_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / "paceline-sent-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "paceline-sent-file").write_text("mine")
    (tmp_path / "paceline-sent-open").mkdir(0o755)
    (tmp_path / "paceline-reports").mkdir(0o700)
    before = sorted(tmp_path.iterdir())
    sent_folders.sweep()
    assert sorted(tmp_path.iterdir()) == before
