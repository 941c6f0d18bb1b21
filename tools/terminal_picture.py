# ruff: noqa: INP001 - a script, not a package
"""Draw what commands really print on a terminal, as an SVG.

    python tools/terminal_picture.py docs/images/demo.svg COMMAND [COMMAND ...]

Each command is run in an empty folder, one after the other, with a terminal as its output; what
it wrote there is drawn below its prompt, colours and all. What goes to standard error (the live
panel) is left out, as it is gone from the screen when a command ends.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

NUM_COLUMNS = 100
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(NUM_COLUMNS)}
# rich asks the web for a font; a picture must not. Every browser has a monospaced one.
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def output_of(command: str, folder: str) -> str:
    """Run a command in a folder and return what it wrote to its terminal."""
    mine, its = pty.openpty()
    first, *rest = shlex.split(command)
    program = Path(sys.executable).with_name(first)  # ours, not another one on PATH
    running = subprocess.Popen(
        [str(program), *rest],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=subprocess.PIPE,
        env=os.environ | TERMINAL,
    )
    os.close(its)
    written = _read_all(mine)
    _, complaint = running.communicate()
    if running.returncode != 0:
        raise SystemExit(f"{command}: exit code {running.returncode}\n{complaint.decode()}")
    return written.decode().replace("\r\n", "\n").rstrip()


def _read_all(descriptor: int) -> bytes:
    """Read until the other side of the terminal is closed, which Linux tells as an error."""
    parts = []
    try:
        while part := os.read(descriptor, 65536):
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return b"".join(parts)


def draw(commands: list[str]) -> str:
    """Run the commands and give the picture of their prompts and outputs."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=NUM_COLUMNS, file=nowhere, force_terminal=True)
        for command in commands:
            console.print(Text(f"$ {command}", style="bold green"))
            console.print(Text.from_ansi(output_of(command, folder)), soft_wrap=True)
            console.print()
    svg = console.export_svg(title="paceline", unique_id="paceline")
    return FONT_FACES.sub("", svg).replace("Fira Code", "ui-monospace")


def main(picture: Path, commands: list[str]) -> None:
    lines = [line.rstrip() for line in draw(commands).splitlines()]
    picture.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
