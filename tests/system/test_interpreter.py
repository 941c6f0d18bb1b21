"""Files in the current folder do not take the place of Python's own modules in our processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.system.interpreter import find_below, own_command, safe_path
from tests.commands import QUICK, last_json, paceline

SHADOWS = ("random.py", "tempfile.py", "socket.py", "json.py")
MODEL = """
import random

import neighbour
import torch
from paceline.testing.workloads import Moons

assert hasattr(random, "getrandbits")


class Mine(Moons):
    def model(self):
        assert neighbour.NAME == "neighbour"
        return super().model()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in SHADOWS:
        (tmp_path / name).write_text(f"raise SystemExit('{name} of the current folder')")
    return tmp_path


@pytest.mark.parametrize(
    "module", ["paceline.exhibits.pictures", "paceline.clusters.zygote_process"]
)
def test_a_process_of_ours_imports_pythons_own(module: str, folder: Path):
    command = own_command(module, "99")
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert "of the current folder" not in done.stderr


def test_what_a_user_put_on_the_path_is_found(tmp_path: Path):
    (tmp_path / "mine.py").write_text("print('found')")
    done = subprocess.run(
        own_command("mine"),
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "found\n"


def test_a_run_and_its_report_go_on_beside_such_files(folder: Path):
    done = paceline("run", "logistic-mnist", *QUICK, "--steps", 3, "--json", cwd=folder, cold=True)
    assert done.returncode == 0, done.stderr
    assert last_json(done)["status"] == "finished"
    done = paceline("report", "last", cwd=folder, cold=True)
    assert done.returncode == 0, done.stderr
    assert list(folder.glob("reports/*/figures/*.png"))


@pytest.mark.parametrize("name", ["mine.py:Mine", "mine:Mine"])
def test_a_class_beside_them_is_found_with_its_neighbour(folder: Path, name: str):
    (folder / "mine.py").write_text(MODEL)
    (folder / "neighbour.py").write_text("NAME = 'neighbour'")
    # Told the number of threads, it need not be measured.
    options = ("--steps", 3, "--strategy", "ring", "--workers", 2, "--set", "threads=1")
    done = paceline("run", name, *options, cwd=folder, cold=True)
    assert done.returncode == 0, done.stderr


def test_a_neighbour_is_found_before_what_is_installed(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    find_below(tmp_path)
    installed = next(index for index, each in enumerate(sys.path) if "site-packages" in each)
    library = next(index for index, each in enumerate(sys.path) if each.endswith("lib-dynload"))
    assert library < sys.path.index(str(tmp_path)) < installed
    assert sys.path.count(str(tmp_path)) == 1


def test_the_standard_library_comes_before_a_scripts_folder(monkeypatch, tmp_path: Path):
    told = str(tmp_path / "told")
    monkeypatch.setenv("PYTHONPATH", told)
    library = [each for each in sys.path if "site-packages" not in each and "lib/python3" in each]
    monkeypatch.setattr(sys, "path", [str(tmp_path), told, *library, "installed"])
    assert safe_path() == [told, *library, str(tmp_path), "installed"]
