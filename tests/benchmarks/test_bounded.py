"""A peer's program is ended at its deadline, and so is whatever it started.

In a process of its own: it adopts orphans and kills its children, and pytest has some.
"""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.paths import ROOT

CALL = """
import sys
from bounded import DidNotRun, last_line
deadline_s, *command = sys.argv[1:]
try:
    print(last_line(command, float(deadline_s)))
except DidNotRun as error:
    print("did not run:", error)
"""


def call(*command: str, deadline_s: float = 30.0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(deadline_s), *command],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.strip()


def python(code: str, **options: float) -> str:
    return call(sys.executable, "-c", code, **options)


class TestLastLine:
    def test_it_is_read_as_an_object(self):
        assert python("""print("noise"); print('{"rate": 2.5}')""") == "{'rate': 2.5}"

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
            ("raise SystemExit(3)", "exit code 3"),
            ("print('no json')", "it printed no result"),
            ("pass", "it printed no result"),
        ],
    )
    def test_a_program_that_fails_says_why(self, code, reason):
        assert python(code) == f"did not run: {reason}"

    def test_a_program_that_is_not_there_says_so(self):
        assert call("/nowhere/python") == "did not run: /nowhere/python: No such file or directory"

    def test_it_runs_in_a_folder_of_its_own(self):
        code = "import json, os; print(json.dumps({'at': [os.getcwd(), os.environ['HOME']]}))"
        first, second = (eval(python(code))["at"] for _ in range(2))
        assert first[0] == first[1] != second[0]


class TestNothingIsLeft:
    # A process that nothing but its parent knows of: another session, its parent gone.
    HIDDEN = "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); "
    HIDDEN += "time.sleep(600)"

    @pytest.mark.parametrize("then", ["print('{}')", "time.sleep(600)"])
    def test_a_process_that_slipped_away_is_ended(self, tmp_path, then):
        note = tmp_path / "pid"
        code = (
            "import pathlib, subprocess, sys, time\n"
            f"subprocess.Popen([sys.executable, '-c', {self.HIDDEN!r}, {str(note)!r}])\n"
            f"while not pathlib.Path({str(note)!r}).exists() "
            f"or not pathlib.Path({str(note)!r}).read_text(): time.sleep(0.01)\n"
            f"{then}"
        )
        said = python(code, deadline_s=120.0 if "print" in then else 30.0)
        assert said == ("{}" if "print" in then else "did not run: not done after 30 s")
        assert not psutil.pid_exists(int(note.read_text()))
