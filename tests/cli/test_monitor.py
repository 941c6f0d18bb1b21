"""`paceline monitor`, as a user starts it."""

import csv
import signal
import sys

from tests.commands import paceline, start

BUSY = "import os, time\nkept = bytearray(30_000_000)\nend = time.process_time() + 0.4\n"
BUSY += "while time.process_time() < end: pass\n"


def test_a_job_and_its_children_are_logged_and_its_exit_code_is_ours(tmp_path):
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\nsys.exit(3)"
    done = paceline(
        "monitor", "--out", "job.csv", "--interval", 0.1, "--", sys.executable, "-c", child,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3
    assert "rows in job.csv" in done.stderr
    rows = list(csv.DictReader((tmp_path / "job.csv").read_text().splitlines()))
    assert max(float(row["cpu_percent"]) for row in rows) > 5
    assert max(int(row["memory_bytes"]) for row in rows) > 30_000_000
    assert max(int(row["processes"]) for row in rows) == 2
    times = [float(row["time_s"]) for row in rows]
    assert times == sorted(times)


def test_a_command_that_ends_between_two_rows_has_a_last_one_with_all_it_used(tmp_path):
    done = paceline(
        "monitor", "--out", "job.csv", "--interval", 1000, "--", sys.executable, "-c", BUSY,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    (row,) = csv.DictReader((tmp_path / "job.csv").read_text().splitlines())
    assert float(row["cpu_percent"]) / 100 * float(row["time_s"]) > 0.3


def test_without_a_file_rows_are_shown_and_the_jobs_own_output_is_its_own(tmp_path):
    done = paceline("monitor", "sh", "-c", "echo mine; sleep 0.6", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "mine\n"
    assert "processes" in done.stderr
    assert len(done.stderr.splitlines()) >= 3


def test_options_behind_the_command_are_the_commands(tmp_path):
    done = paceline("monitor", "echo", "--out", "x", cwd=tmp_path)
    assert done.stdout == "--out x\n"


def test_a_command_that_is_not_there_is_named(tmp_path):
    done = paceline("monitor", "--", "no-such-command", cwd=tmp_path)
    assert done.returncode == 2
    assert "no-such-command" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_started(tmp_path):
    done = paceline("monitor", "--out", "/dev/full", "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 2
    assert "--out = '/dev/full': cannot be written: No space left on device" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_file_that_takes_no_more_rows_does_not_end_the_job(tmp_path):
    done = paceline(
        "monitor", "--out", "job.csv", "--interval", 0.05, "--", "sh", "-c", "sleep 2; exit 7",
        cwd=tmp_path, prefix=("sh", "-c", 'ulimit -f 1; exec "$@"', "sh"),
    )  # fmt: skip
    assert done.returncode == 7
    assert "job.csv takes no more rows: File too large" in done.stderr


def test_being_asked_to_end_is_passed_on(tmp_path):
    script = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    job = start("monitor", "--out", "job.csv", "--", "sh", "-c", script, cwd=tmp_path)
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=120)
    assert output == "asked\n"
    assert job.returncode == 7


def test_a_job_that_is_killed_ends_as_a_shell_says_it(tmp_path):
    assert paceline("monitor", "sh", "-c", "kill -9 $$", cwd=tmp_path).returncode == 137


def test_what_nohup_ignores_stays_ignored_by_the_job_too(tmp_path):
    script = "kill -HUP $$; kill -HUP $PPID; sleep 0.3; echo alive"
    done = paceline("monitor", "sh", "-c", script, cwd=tmp_path, prefix=("nohup",))
    assert (done.returncode, done.stdout) == (0, "alive\n")
