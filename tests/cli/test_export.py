from __future__ import annotations

import itertools
import json
import re

import polars
import pytest

from paceline.testing.workloads import Moons
from tests.commands import paceline
from tests.made_runs import made

MOONS = f"{Moons.__module__}:Moons"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A run of two workers and a server, looked at closely, and its trace."""
    cwd = tmp_path_factory.mktemp("profiled")
    few = ("--workers", "2", "--worker-steps", "30", "--strategy", "ps-sync")
    done = paceline("run", MOONS, *few, "--profile", "--set", "record.tensorboard=false", cwd=cwd)
    assert done.returncode == 0, done.stderr
    done = paceline("export", "last", "--format", "chrome-trace", "--to", "traces", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd


def events(cwd):
    (path,) = cwd.glob("traces/*.trace.json")
    return json.loads(path.read_text())["traceEvents"]


def is_name(event) -> bool:
    return event["name"] == "process_name"


def test_a_loss_that_is_no_number_is_no_number_in_a_trace_either(tmp_path):
    run = made(tmp_path / "runs")
    run.steps.with_columns(loss_mean=polars.lit(float("nan"))).write_parquet(run.folder.steps)
    done = paceline("export", run.folder.path, "--format", "chrome-trace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "export").glob("*.trace.json")
    trace = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert any(event.get("args", {}).get("loss", 0) is None for event in trace["traceEvents"])


class TestProfile:
    def test_operators_are_told_with_their_outputs(self, profiled):
        (path,) = profiled.glob("runs/*/profile/worker0.operators.json")
        rows = {row["operator"]: row for row in json.loads(path.read_text())}
        # Eight points through a layer of sixteen, then one of two.
        assert rows["aten::addmm"]["output_shape"] in ([8, 16], [8, 2])
        assert rows["aten::addmm"]["output_bytes"] in (8 * 16 * 4, 8 * 2 * 4)
        assert rows["aten::addmm"]["calls_per_step"] == 1

    def test_explain_shows_them(self, profiled):
        told = paceline("explain", "last", cwd=profiled).stdout
        assert "addmm" in told.partition("Operators of worker0")[2]

    def test_servers_are_looked_at_too(self, profiled):
        assert list(profiled.glob("runs/*/profile/server0.trace.json"))


class TestChromeTrace:
    def test_every_seat_and_node_is_there_by_name(self, profiled):
        names = {
            each["args"]["name"] for each in events(profiled) if each["name"] == "process_name"
        }
        assert names == {"worker0", "worker1", "server0", "node0"}

    def test_all_is_on_the_clock_of_the_run(self, profiled):
        (path,) = profiled.glob("runs/*/result.json")
        train_s = json.loads(path.read_text())["train_s"]
        slices = [each for each in events(profiled) if each["ph"] == "X"]
        assert min(each["ts"] for each in slices) >= 0
        operators = [each for each in slices if each.get("cat") == "cpu_op"]
        assert operators
        assert all(each["ts"] / 1e6 <= train_s for each in operators if each["pid"] == 1)

    def test_servers_have_a_processor_of_their_own(self, profiled):
        pids = {each["args"]["name"]: each["pid"] for each in events(profiled) if is_name(each)}
        counters = [each for each in events(profiled) if each["ph"] == "C"]
        assert any(each["pid"] == pids["server0"] for each in counters)

    def test_slices_of_a_track_do_not_overlap(self, profiled):
        rows = [
            e for e in events(profiled) if e["ph"] == "X" and re.fullmatch(r"\d+ steps?", e["name"])
        ]
        for pid in {each["pid"] for each in rows}:
            mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in rows if e["pid"] == pid)
            assert all(first[1] <= then[0] + 1 for first, then in itertools.pairwise(mine))


class TestWrong:
    def test_another_format_is_answered_with_the_choices(self, profiled):
        done = paceline("export", "last", "--format", "tape", cwd=profiled)
        assert done.returncode != 0
        assert "chrome-trace" in done.stderr

    def test_a_folder_that_cannot_be_made(self, profiled):
        (profiled / "file").write_text("in the way")
        where = ("--to", "file/traces")
        done = paceline("export", "last", "--format", "chrome-trace", *where, cwd=profiled)
        assert done.returncode != 0
        assert "cannot write to file/traces" in done.stderr
