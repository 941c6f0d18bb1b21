"""The command line, as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

PACELINE = [sys.executable, "-m", "paceline"]
QUICK = ["--set", "workload.subset=tenth"]


def paceline(
    *arguments: object, cwd: Path, prefix=(), **options
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [*prefix, *PACELINE, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300, **options
    )


def start(*arguments: object, cwd: Path, prefix=(), **options) -> subprocess.Popen[str]:
    """Start a command and leave it running."""
    command = [*prefix, *PACELINE, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, **(streams | options))


def last_json(done: subprocess.CompletedProcess[str]) -> dict:
    return json.loads(done.stdout.splitlines()[-1])
