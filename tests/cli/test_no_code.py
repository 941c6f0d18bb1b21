"""Looking at runs runs none of the code that they name."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paceline.cli.app import app
from paceline.errors import SpecError, StoreError
from tests.made_runs import made

CODE = """
from pathlib import Path

Path(__file__).with_name("was-run").touch()

from paceline.testing.workloads import Moons


class Mine(Moons):
    pass
"""
SPEC = """
num_workers = 2
{more}
[workload]
name = "{code}"
[strategy]
name = "{code}"
[cluster]
name = "{code}"
[optimizer]
name = "{code}"
schedule = {{name = "{code}"}}
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def out(tmp_path: Path, code: Path) -> Path:
    """Two runs in a study's folder; their specs name code in every part that can."""
    study = tmp_path / "study"
    for _ in range(2):
        run = made(study / "runs", workload=f"{code}:Mine")
        run.folder.spec.write_text(SPEC.format(code=f"{code}:Mine", more=""))
    note = {"study": "mnist-logistic", "variant": "quick", "set": {}}
    (study / "study.json").write_text(json.dumps(note))
    return study / "runs"


def paceline(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def was_run(code: Path) -> bool:
    return code.with_name("was-run").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("show", "last"),
        ("show", "last", "--json"),
        ("explain", "last"),
        *(("export", "last", "--format", kind) for kind in ("csv", "tensorboard", "chrome-trace")),
        ("report", "last"),
    ],
    ids=" ".join,
)
def test_no_command_that_looks_at_a_run_runs_it(command, out: Path, code: Path):
    to = ["--to", out.parent / "to"] if command[0] in {"export", "report"} else []
    done = paceline(*command, "--out", out, *to)
    assert done.exit_code == 0, done.exception
    assert not was_run(code)


def test_nor_does_the_report_of_a_study(out: Path, code: Path):
    done = paceline("report", out.parent, "--to", out.parent / "to")
    assert done.exit_code == 0, done.exception
    assert not was_run(code)


@pytest.mark.parametrize("field", ["strategy.name", "optimizer.schedule.name", "cluster"])
def test_nor_one_whose_note_names_code(out: Path, code: Path, field: str):
    note = {"study": "mnist-logistic", "variant": "quick", "set": {field: f"{code}:Mine"}}
    (out.parent / "study.json").write_text(json.dumps(note))
    done = paceline("report", out.parent, "--to", out.parent / "to")
    assert isinstance(done.exception, (StoreError, SpecError))
    assert not was_run(code)


def test_the_layers_of_a_stored_spec_are_shown_when_its_code_may_be_run(out: Path, code: Path):
    spec = next(out.iterdir()) / "spec.toml"
    done = paceline("show", "--graph", spec)
    assert isinstance(done.exception, SpecError)
    assert "--run-code" in str(done.exception)
    assert not was_run(code)
    done = paceline("show", "--graph", spec, "--run-code")
    assert done.exit_code == 0, done.exception
    assert "parameters" in done.stdout
    assert was_run(code)


def test_the_layers_of_a_class_that_is_named_are_shown(code: Path):
    done = paceline("show", "--graph", f"{code}:Mine")
    assert done.exit_code == 0, done.exception
    assert was_run(code)
