"""A limit on address space: a run works, or says at once what the limit is; results are kept."""

import json
from pathlib import Path

import polars
import pytest

from paceline.errors import TooLittleMemory
from paceline.store.runs import RunDir
from tests.commands import QUICK, last_json, paceline
from tests.store.test_sealing import run, step_row, write

__all__ = ["run"]


def limited(limit_kb: int) -> list[str]:
    """What stands before a command that may have only so much address space."""
    return ["sh", "-c", f'ulimit -v {limit_kb}; exec "$@"', "sh"]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_limit_too_low_for_any_run_is_named_and_nothing_is_started(command, tmp_path: Path):
    done = paceline(
        command, "logistic-mnist", "--epochs", 1, *QUICK, cwd=tmp_path, prefix=limited(400_000)
    )
    assert done.returncode == TooLittleMemory.exit_code
    told = (
        "a run needs at least 700,000 kB of address space, and each process may have only "
        "400,000 kB of address space (RLIMIT_AS); `ulimit -v` shows and sets this limit; "
        "nothing was started"
    )
    assert done.stderr.splitlines()[-1] == told
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def left(run: RunDir) -> RunDir:
    """A run whose driver is gone, with a few rows and losses."""
    write(run, "worker0", *(step_row(each, 5 * each, 5, 1.0 / each) for each in range(1, 5)))
    run.seat_losses("worker0").write_bytes(b"\0\0\x80?" * 20)
    run.let_go()
    return run


@pytest.mark.parametrize("limit_kb", [300_000, 420_000, 500_000, 600_000])
def test_a_run_is_sealed_where_polars_finds_no_room(limit_kb, left: RunDir, tmp_path: Path):
    done = paceline("ls", "--json", "--out", tmp_path, cwd=tmp_path, prefix=limited(limit_kb))
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["status"] == "interrupted"
    assert left.is_sealed
    lost = [each for each in result["warnings"] if "could not be written" in each]
    assert all("RLIMIT_AS" in each for each in lost)
    assert left.steps.exists() or lost


def test_tables_are_written_where_there_is_room_for_a_process_of_their_own(
    left: RunDir, tmp_path: Path
):
    done = paceline("ls", "--json", "--out", tmp_path, cwd=tmp_path, prefix=limited(1_500_000))
    (result,) = last_json(done)
    assert result["warnings"] == []
    steps = polars.read_parquet(left.steps)
    assert steps["seat"].to_list() == ["worker0"] * 4
    assert steps["worker_steps"].to_list() == [5, 10, 15, 20]
    assert steps["loss_variance"].dtype == polars.Float64
    losses = polars.read_parquet(left.losses)
    assert losses["loss"].to_list() == [1.0] * 20
