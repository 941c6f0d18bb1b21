"""`paceline calibrate`, and a run that replays what it wrote."""

import os

import pytest

from tests.commands import last_json, paceline


def test_what_was_measured_can_be_replayed(tmp_path):
    done = paceline(
        *("calibrate", "synthetic", "--repeat", 3, "--threads", 1, "--out", "mine.toml"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "layers.3" in done.stdout
    assert "paceline run synthetic --device replay:mine.toml" in done.stdout
    ran = paceline(
        *("run", "synthetic", "--device", "replay:mine.toml", "--dilation", 2),
        *("--steps", 3, "--json"),
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    result = last_json(ran)
    assert (result["compute"], result["device"]) == ("replayed", "replay:mine.toml")
    assert "replayed compute (mine), dilated 2x" in ran.stdout
    assert "no accuracy" in ran.stdout
    assert "replayed compute (mine), dilated 2x" in paceline("ls", cwd=tmp_path).stdout


def test_another_kind_of_file_is_not_overwritten(tmp_path):
    (tmp_path / "notes.toml").write_text("mine = true\n")
    done = paceline("calibrate", "synthetic", "--out", "notes.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "not overwritten" in done.stderr
    assert (tmp_path / "notes.toml").read_text() == "mine = true\n"


def test_a_folder_that_is_not_there_is_told_before_anything_is_measured(tmp_path):
    done = paceline("calibrate", "synthetic", "--out", "nowhere/mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_closed_is_told_before_anything_is_measured(tmp_path):
    tmp_path.chmod(0o500)
    done = paceline("calibrate", "synthetic", "--out", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not writable" in done.stderr


def test_a_disk_that_is_full_is_told(tmp_path):
    done = paceline(
        "calibrate", "synthetic", "--repeat", 1, cwd=tmp_path,
        prefix=("sh", "-c", 'ulimit -f 0; exec "$@"', "sh"),
    )  # fmt: skip
    assert done.returncode == 2
    assert "synthetic.rates.toml cannot be written: File too large" in done.stderr
