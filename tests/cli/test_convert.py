"""`paceline data convert` and what is said of generated rows, as a user meets them."""

import json
import time

from tests.commands import last_json, paceline, start
from tests.workloads.data.sparse.rows import made

ROWS = made(300, num_features=2000)
SMALL = ["--set", "workload.num_features=2000", "--set", "record.tensorboard=false"]


def test_convert_then_train_and_again_is_already_complete(tmp_path):
    (tmp_path / "criteo.tsv").write_bytes(ROWS.text)
    where = ("--data-dir", tmp_path / "cache")
    done = paceline("data", "convert", "criteo.tsv", "out", *where, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "300 criteo rows are in out\n"
    assert "converting criteo.tsv" in done.stderr
    again = paceline("data", "convert", "criteo.tsv", "out", *where, cwd=tmp_path)
    assert "already complete" in again.stderr
    settings = ["--set", "workload.train=out", *SMALL]
    run = paceline("run", "logistic-criteo", "--json", *settings, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert last_json(run)["data"] == "out, 270 rows, converted"
    assert "majority class alone" in run.stdout
    assert "AUC 0." in run.stdout


def test_a_bad_row_ends_it_by_file_and_line_or_is_counted(tmp_path):
    lines = [*ROWS.lines]
    lines[6] = b"2" + lines[6][1:]
    (tmp_path / "criteo.tsv").write_bytes(b"\n".join(lines))
    where = ("--data-dir", tmp_path / "cache")
    done = paceline("data", "convert", "criteo.tsv", "out", *where, cwd=tmp_path)
    assert done.returncode == 2
    assert "criteo.tsv, line 7: label '2' is neither 0 nor 1" in done.stderr
    assert "Traceback" not in done.stderr
    skipping = ("--bad-rows", "skip", *where)
    done = paceline("data", "convert", "criteo.tsv", "skipped", *skipping, cwd=tmp_path)
    assert done.returncode == 0
    assert "1 bad rows were left out, such as criteo.tsv, line 7: label '2'" in done.stdout


def test_a_conversion_killed_in_the_middle_is_finished_by_another(tmp_path):
    (tmp_path / "criteo.tsv").write_bytes(ROWS.text * 400)
    command = ("data", "convert", "criteo.tsv", "out", "--data-dir", tmp_path / "cache")
    first = start(*command, cwd=tmp_path)
    rows = tmp_path / "out" / "rows.u4"
    while first.poll() is None and not (rows.exists() and rows.stat().st_size):
        time.sleep(0.001)  # it is to be met while it writes
    first.kill()
    first.communicate()
    done = paceline(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "rows.json").read_text())["num_rows"] == 120_000
    one, twice = rows.read_bytes()[: 300 * 160], rows.read_bytes()
    assert twice == one * 400


def test_every_output_says_that_rows_are_generated(tmp_path):
    settings = [*SMALL, "--set", "workload.source=generated", "--set", "workload.rows=600"]
    run = ("run", "logistic-criteo", "--data-dir", tmp_path / "cache", *settings)
    done = paceline(*run, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    looked_at = [paceline(*each, cwd=tmp_path).stdout for each in (("ls",), ("show", "last"))]
    assert last_json(done)["data"].startswith("generated rows")
    for output in (done.stdout, done.stderr, *looked_at):
        assert "generated rows" in output
