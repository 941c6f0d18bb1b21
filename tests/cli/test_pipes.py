"""A run goes on when nobody reads its output, and ends when its folder is removed."""

import json
import shutil
import time
from pathlib import Path

from tests.commands import QUICK, start

RUN = ("run", "logistic-mnist", *QUICK, "--set", "record.tensorboard=false")


def the_only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def test_a_closed_pipe_does_not_fail_the_run(tmp_path: Path):
    process = start(*RUN, "--epochs", 3, "--json", cwd=tmp_path)
    assert process.stderr.readline()  # as head -1 does
    process.stderr.close()
    process.stdout.close()
    assert process.wait(100) == 0
    assert json.loads((the_only_run(tmp_path) / "result.json").read_text())["status"] == "finished"


def test_a_folder_that_is_removed_while_it_trains_ends_the_run(tmp_path: Path):
    process = start(*RUN, "--seconds", 500, cwd=tmp_path)
    while "training" not in process.stderr.readline():
        pass
    while not list(the_only_run(tmp_path).glob("records/worker0.jsonl")):
        time.sleep(0.01)
    shutil.rmtree(the_only_run(tmp_path), ignore_errors=True)
    _, error = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "was removed while the run went on" in error
    assert list((tmp_path / "runs").iterdir()) == []
