"""One hostile or damaged folder is told as such; the others are listed all the same."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paceline.cli.app import app
from tests.hostile_runs import (
    FACTS,
    READABLE,
    UNREADABLE,
    _unsealed,
    hostile,
    thirty_million_rows,
)
from tests.made_runs import made

COMMANDS = (["ls"], ["ls", "--json"])


def paceline(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=True)


def commands_nothing(text: str) -> bool:
    """No character but ends of lines and spaces tells a terminal to do something."""
    text.encode()
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize(
    "change", {**READABLE, **UNREADABLE}.values(), ids={**READABLE, **UNREADABLE}
)
def test_others_are_listed_beside_a_hostile_run(tmp_path: Path, change):
    hostile(tmp_path, change)
    good = made(tmp_path)
    for command in COMMANDS:
        done = paceline(*command, "--out", tmp_path)
        assert done.exit_code == 0, done.exception
        assert commands_nothing(done.stdout)
        assert good.name.rpartition("-")[2] in done.stdout
    assert len(json.loads(done.stdout)) == 2


@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_said_with_the_reason(tmp_path: Path, change):
    run = hostile(tmp_path, change)
    (listed,) = json.loads(paceline("ls", "--json", "--out", tmp_path).stdout)
    assert listed["status"] == "unreadable"
    assert run.name in listed["reason"] or "not " in listed["reason"]
    for command in ("show", "explain"):
        done = paceline(command, "last", "--out", tmp_path)
        assert done.exception is None or type(done.exception).__name__ in {
            "StoreError",
            "SystemExit",
        }
        assert commands_nothing(done.output)


@pytest.mark.parametrize("change", READABLE.values(), ids=READABLE)
def test_what_can_be_read_is_shown_without_harm(tmp_path: Path, change):
    hostile(tmp_path, change)
    for command in ("show", "explain"):
        done = paceline(command, "last", "--out", tmp_path)
        assert done.exit_code == 0, done.exception
        assert commands_nothing(done.output)


def test_names_of_folders_command_no_terminal(tmp_path: Path):
    run = made(tmp_path).folder
    for name in (b"2026-[bold-\x1b[2J-\xff-a", b"2026-[bold]-\n-b"):
        folder = tmp_path / os.fsdecode(name)
        folder.mkdir()
        (folder / "spec.toml").write_text("seed = 0")
    done = paceline("ls", "--out", tmp_path)
    assert done.exit_code == 0, done.exception
    assert commands_nothing(done.stdout)
    assert run.name.rpartition("-")[2] in done.stdout
    assert len(done.stdout.splitlines()) == 6  # a head, three runs, two reasons


def test_millions_of_evaluations_are_not_printed(tmp_path: Path):
    thirty_million_rows(made(tmp_path).folder)
    done = paceline("show", "last", "--out", tmp_path)
    assert done.exit_code == 0
    assert "30,000,000 rows" in done.stderr
    assert len(done.stdout) < 10_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
class TestFolders:
    """Only folders of our own are sealed, and nothing is written through a link."""

    def unsealed(self, out: Path):
        return hostile(out, _unsealed(FACTS))

    def listed(self, out: Path) -> dict:
        (found,) = json.loads(paceline("ls", "--json", "--out", out).stdout)
        return found

    def test_our_own_is_sealed(self, tmp_path: Path):
        run = self.unsealed(tmp_path)
        assert self.listed(tmp_path)["status"] == "interrupted"
        assert run.is_sealed

    @pytest.mark.parametrize("part", ["path", "driver", "records"])
    def test_one_of_another_user_is_not(self, tmp_path: Path, part: str):
        run = self.unsealed(tmp_path)
        os.chown(getattr(run, part), 12345, 12345)
        before = sorted(path.name for path in run.path.rglob("*"))
        assert "uid 12345" in self.listed(tmp_path)["reason"]
        assert sorted(path.name for path in run.path.rglob("*")) == before

    def test_one_that_is_a_link_is_not(self, tmp_path: Path):
        run = self.unsealed(tmp_path / "elsewhere")
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / run.name).symlink_to(run.path)
        assert "is a link" in self.listed(tmp_path / "runs")["reason"]
        assert not run.is_sealed

    def test_one_whose_events_would_go_elsewhere_is_not(self, tmp_path: Path):
        run, elsewhere = self.unsealed(tmp_path / "runs"), tmp_path / "elsewhere"
        elsewhere.mkdir()
        run.tensorboard.symlink_to(elsewhere)
        assert "tensorboard is a link" in self.listed(tmp_path / "runs")["reason"]
        assert list(elsewhere.iterdir()) == []
