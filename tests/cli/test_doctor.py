"""`paceline doctor` as a user calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from paceline.cli.doctor import doctor
from paceline.measure.machine import REQUIRED

APP = typer.Typer()
APP.command()(doctor)


def test_the_table_names_what_was_examined():
    result = CliRunner().invoke(APP, [], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for word in ("torch", "network namespaces", "shaping (tbf)", "what to do"):
        assert word in result.output


def test_json_is_one_object_and_nothing_else():
    result = CliRunner().invoke(APP, ["--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert told["ok"] is True
    assert {"name", "ok", "value", "remedy"} == told["findings"][0].keys()
    assert {finding["name"] for finding in told["findings"]} >= REQUIRED


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_without_torch_the_exit_code_is_one_and_the_remedy_shown(
    tmp_path: Path, arguments: list[str]
):
    (tmp_path / "torch.py").write_text("raise ImportError('[Errno 1] no torch here')")
    code = "import typer; from paceline.cli.doctor import doctor; typer.run(doctor)"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        (sys.executable, "-c", code, *arguments),
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install torch" in done.stdout
    assert "[Errno 1] no torch here" in done.stdout  # and not taken for markup
    if arguments:
        assert json.loads(done.stdout)["ok"] is False
