"""What a run's environment.json says about the machine these tests run on."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paceline.measure import environment
from paceline.system.cgroups import quota_of


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    done = subprocess.run(
        ("git", *identity, *words), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "model.py").write_text("layers = 3\n")
    git(tmp_path, "add", "model.py")
    return tmp_path


def test_the_environment_survives_a_round_trip_through_json():
    captured = environment.capture()
    assert json.loads(json.dumps(captured)) == captured


def test_the_machine_is_described():
    captured = environment.capture()
    assert captured["hostname"]
    assert captured["kernel"] == os.uname().release
    assert captured["cpu"]["logical_cores"] == os.cpu_count()
    assert captured["cpu"]["affinity"] == sorted(os.sched_getaffinity(0))
    assert 1 <= captured["cpu"]["physical_cores"] <= captured["cpu"]["logical_cores"]
    assert 0 < captured["memory"]["available_bytes"] <= captured["memory"]["total_bytes"]
    assert len(captured["load_average"]) == 3
    assert 0 <= captured["steal"]["percent_since_boot"] <= 100


def test_versions_are_told_without_importing_torch():
    code = (
        "import sys; from paceline.measure.environment import capture; "
        "print(capture()['versions']['torch'], 'torch' in sys.modules)"
    )
    done = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True)
    version, imported = done.stdout.split()
    assert version[0].isdigit()
    assert imported == "False"


def test_the_time_is_now_and_says_it_is_utc():
    told = datetime.fromisoformat(environment.capture()["captured_at_utc"])
    assert told.utcoffset().total_seconds() == 0
    assert abs((datetime.now(UTC) - told).total_seconds()) < 10


def test_a_repository_before_its_first_commit_has_none(repository: Path):
    assert environment.capture()["git"]["directory"] == {"commit": None, "dirty": True}


def test_a_clean_and_a_changed_repository_differ(repository: Path):
    git(repository, "commit", "--quiet", "-m", "first")
    commit = git(repository, "rev-parse", "HEAD")
    assert environment.capture()["git"]["directory"] == {"commit": commit, "dirty": False}
    (repository / "model.py").write_text("layers = 4\n")
    assert environment.capture()["git"]["directory"] == {"commit": commit, "dirty": True}


def test_asking_git_does_not_write_to_the_repository(repository: Path):
    index = repository / ".git" / "index"
    os.utime(repository / "model.py", (1, 1))  # git status would like to refresh its index now
    before = index.stat().st_mtime_ns
    environment.capture()
    assert index.stat().st_mtime_ns == before


def test_a_git_hook_does_not_make_git_answer_for_another_folder(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    git(repository, "commit", "--quiet", "-m", "first")
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert environment.capture()["git"]["directory"] is None


def test_a_folder_that_was_deleted_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert environment.capture()["git"]["directory"] is None


def test_without_git_on_the_path_its_state_is_unknown(
    repository: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(repository))
    assert environment.capture()["git"] == {"directory": None, "paceline": None}


def test_steal_time_never_runs_backwards():
    first = environment.steal_seconds()
    assert 0 <= first <= environment.steal_seconds()


def test_usable_cores_follow_the_affinity():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from paceline.measure.environment import usable_cores; print(usable_cores() <= 1)"
    )
    done = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_quota_is_read_from_both_kinds_of_cgroup(
    tmp_path: Path, files: dict[str, str], cores: float | None
):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota_of(tmp_path) == cores


def test_capturing_takes_less_than_a_tenth_of_a_second_of_a_processor():
    began_s = time.process_time()
    environment.capture()
    assert time.process_time() - began_s < 0.1
