"""A terminal as a test needs it: commands typed into a pseudo-terminal of a given width, and what
is on its screen when they have ended."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.warm import IMPORTS

WITHIN_S = 300
_PACELINE = (sys.executable, "-m", "paceline")
_ROWS = 50
# What rich writes beside letters: colours, a hidden cursor, a line up, a line erased.
_PARTS = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
_MARK = "--- a command"
_IN_TURN = f"""{IMPORTS}
import json
for arguments in json.loads(sys.argv[1]):
    print("{_MARK} begins", flush=True)
    child = os.fork()
    if child == 0:
        carry_out(arguments)
    _, status = os.waitpid(child, 0)
    print("{_MARK} ends", os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Transcript:
    """What stood on the screen, line by line as they were printed, and the exit code."""

    lines: list[str]
    code: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def words(self) -> str:
        """All of it with single spaces, as it reads wherever its lines end."""
        return " ".join(self.text.split())


def typed(*arguments: object, cwd: Path, columns: int = 80, **environment: str) -> Transcript:
    """Type a command into a terminal and wait until it ends."""
    return _typed([*_PACELINE, *map(str, arguments)], cwd, columns, environment)


def typed_python(script: str, cwd: Path, columns: int = 80) -> Transcript:
    """Run Python in a terminal."""
    return _typed([sys.executable, "-c", script], cwd, columns, {})


def typed_in_turn(
    commands: Sequence[Sequence[object]], cwd: Path, columns: int = 80
) -> list[Transcript]:
    """Type commands one after the other; what all of them import is imported once."""
    listed = [[str(each) for each in command] for command in commands]
    told = _typed([sys.executable, "-c", _IN_TURN, json.dumps(listed)], cwd, columns, {})
    assert told.code == 0, told.text
    transcripts = []
    for part in told.text.split(f"{_MARK} begins\n")[1:]:
        text, _, code = part.rpartition(f"{_MARK} ends ")
        transcripts.append(Transcript(text.splitlines(), int(code)))
    return transcripts


def _typed(
    command: Sequence[str], cwd: Path, columns: int, environment: dict[str, str]
) -> Transcript:
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    width = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"}
    kept = {key: value for key, value in os.environ.items() if key not in width}
    running = subprocess.Popen(
        command,
        cwd=cwd,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env=kept | {"TERM": "xterm-256color"} | environment,
    )
    os.close(its)
    written = _read_all(mine)
    return Transcript(_screen(written), running.wait(timeout=WITHIN_S))


def _read_all(descriptor: int) -> str:
    """Read until nobody holds the other side any more, which Linux tells as an error."""
    parts = []
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return b"".join(parts).decode()


def _screen(written: str) -> list[str]:
    """Show what was written as a terminal does, but lose no line at its top and break none.

    A line longer than the terminal is wide stays one, so that a test can see that it is.
    """
    lines, row, column = [""], 0, 0
    for found in _PARTS.finditer(written):
        number, kind, start, end, letters = found.groups()
        if kind == "A":
            row -= int(number or 1)
        elif kind == "K":
            lines[row] = ""
        elif start:
            column = 0
        elif end:
            row, column = row + 1, 0
        for letter in letters or "":
            kept = lines[row].ljust(column)
            lines[row] = kept[:column] + letter + kept[column + 1 :]
            column += 1
        lines += [""] * (row + 1 - len(lines))
    return [line.rstrip() for line in lines]
