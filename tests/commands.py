"""The command line, as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

from tests import warm

PACELINE = [sys.executable, "-m", "paceline"]
_WITHIN_S = 300
QUICK = ["--set", "workload.subset=tenth"]


def paceline(
    *arguments: object, cwd: Path, prefix=(), cold: bool = False, strict: bool = False, **options
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    It is forked by a process that has imported what it needs already, unless a test changes how it
    is started, or is about what happens while Python starts (`cold`). If `strict`, warnings are
    errors.
    """
    if not (cold or prefix or options):
        return warm.paceline([str(each) for each in arguments], cwd, _WITHIN_S, strict=strict)
    assert not strict
    command = [*prefix, *PACELINE, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=_WITHIN_S, **options
    )


def start(*arguments: object, cwd: Path, prefix=(), **options) -> subprocess.Popen[str]:
    """Start a command and leave it running."""
    command = [*prefix, *PACELINE, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, **(streams | options))


def last_json(done: subprocess.CompletedProcess[str]) -> dict:
    return json.loads(done.stdout.splitlines()[-1])
