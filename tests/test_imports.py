"""What is light stays light: a description or `--help` does not load what a run needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.cli.app import COMMANDS
from tests.made_runs import made

HEAVY = ("torch", "polars", "pydantic", "tensorboard", "numpy", "zmq", "altair", "vl_convert")


def heavy_after(code: str, tmp_path: Path) -> set[str]:
    """Run code in a fresh process; say which heavy packages it has then."""
    return modules_after(code, tmp_path) & set(HEAVY)


def modules_after(code: str, tmp_path: Path) -> set[str]:
    """Run code in a fresh process; say which modules it has then."""
    out = tmp_path / "modules.json"
    script = (
        "import atexit, json, sys\n"
        f"note = lambda: open({str(out)!r}, 'w').write(json.dumps(list(sys.modules)))\n"
        f"atexit.register(note)\n{code}"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(out.read_text()))


def calling(*arguments: str) -> str:
    """Make the code that is a call of the command line."""
    return f"sys.argv = ['paceline', *{arguments}]\nfrom paceline.cli import main; main()"


@pytest.mark.parametrize(
    "module",
    [
        "engine.driver",
        "spec",
        "cli",
        "cli.run",
        "store.sealing",
        "training.optim",
        "reporting",
        "comparing",
    ],
)
def test_importing_needs_no_torch(module: str, tmp_path: Path):
    assert "torch" not in heavy_after(f"import paceline.{module}", tmp_path)


def test_built_in_descriptions_are_checked_without_torch(tmp_path: Path):
    code = """
import tomllib
from paceline.parts import PARTS
from paceline.spec import RunSpec
for part in PARTS:
    for name in PARTS[part].entries:
        needed = {
            "imagefolder": {"folder": "pictures"},
            "ssh": {"hosts": ["a"]},
            "manual": {"hosts": {"worker": ["a"]}},
        }
        PARTS[part].build({"name": name, **needed.get(name, {})})
spec = RunSpec.from_table({"workload": "lenet-mnist", "strategy": "solo", "num_workers": 2})
spec.check_data()
assert RunSpec.from_table(tomllib.loads(spec.toml())) == spec
"""
    assert not heavy_after(code, tmp_path) & {"torch", "polars", "tensorboard"}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"torch", "polars", "tensorboard", "pydantic"}),
        (["run", "--help"], {"torch", "polars", "tensorboard"}),
        (["ls", "--help"], {"torch", "polars", "tensorboard"}),
        (["report", "--help"], {"torch", "polars", "tensorboard", "altair"}),
        (["compare", "--help"], {"torch", "polars", "tensorboard", "altair"}),
    ],
    ids=["--help", "run", "ls", "report", "compare"],
)
def test_help_answers_without_loading_what_a_run_needs(
    arguments: list[str], unwanted: set[str], tmp_path: Path
):
    assert not heavy_after(calling(*arguments), tmp_path) & unwanted


def commands_after(tmp_path: Path, *arguments: str) -> set[str]:
    """Call the command line; say which modules of commands it has then."""
    prefix = "paceline.cli."
    found = modules_after(calling(*arguments), tmp_path)
    names = {name.removeprefix(prefix) for name in found if name.startswith(prefix)}
    return names & {entry.module for entry in COMMANDS}


def test_the_overview_imports_no_command_and_a_command_only_what_it_needs(tmp_path: Path):
    assert commands_after(tmp_path, "--help") == set()
    assert commands_after(tmp_path, "doctor", "--help") == {"doctor"}
    assert commands_after(tmp_path, "data", "get", "--help") == {"data_commands"}
    assert commands_after(tmp_path, "ls", "--out", str(tmp_path)) <= {"stored", "run", "workloads"}


def test_looking_at_runs_loads_no_more_than_it_shows(tmp_path: Path):
    runs = tmp_path / "runs"
    for _ in range(2):
        made(runs, accuracy=None)
    # typer itself needs pydantic to read an option.
    assert heavy_after(calling("ls", "--out", str(runs)), tmp_path) <= {"pydantic"}
    assert heavy_after(calling("show", "last", "--out", str(runs)), tmp_path) <= {"pydantic"}


def test_a_run_that_was_evaluated_once_is_shown_without_polars(tmp_path: Path):
    run = made(tmp_path / "runs")
    run.evaluations.tail(1).write_parquet(run.folder.evaluations)
    assert heavy_after(calling("show", str(run.folder.path)), tmp_path) <= {"pydantic"}


def test_the_package_itself_loads_nothing_and_offers_its_names(tmp_path: Path):
    assert heavy_after("import paceline", tmp_path) == set()
    for name in paceline.__all__:
        assert getattr(paceline, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        paceline.trian  # noqa: B018
