"""Charts as SVG, PNG and PDF, made by as many processes as there are cores.

vl-convert holds Python's lock while it draws, so threads would wait for each other. A process of
this module reads charts from its standard input and imports nothing else of Paceline.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_SCALE: Final = 1.5
# Each process has to start its own engine: more of them would not pay.
_MOST_PROCESSES: Final = 4


@contextlib.contextmanager
def being_drawn(charts: Mapping[str, dict[str, Any]], folder: Path) -> Iterator[None]:
    """Draw charts, by the names of their files, while the block goes on; ends when all are there.

    Raises `OSError` with what the drawing process said if one cannot be drawn.
    """
    started = [_start(part, folder) for part in _parts(charts)]
    try:
        yield
        problems = [_problem(process) for process in started]
    finally:
        for process in started:
            process.kill()  # which a process that has ended does not mind
            process.wait()
    if any(problems):
        raise OSError("; ".join(filter(None, problems)))


def write_pictures(spec: dict[str, Any], folder: Path, name: str) -> None:
    """Write one chart as SVG, PNG and PDF, on white."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec | {"background": "white"})
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    _write_png(vl_convert.svg_to_png(svg, scale=_SCALE), folder / f"{name}.png")
    (folder / f"{name}.pdf").write_bytes(vl_convert.svg_to_pdf(svg))


def _write_png(content: bytes, path: Path) -> None:
    """Write a picture without the transparency that it does not have: a third of the size."""
    from io import BytesIO

    from PIL import Image

    Image.open(BytesIO(content)).convert("RGB").save(path)


def _parts(charts: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Deal charts out, the largest first, so that all processes have about the same to do."""
    texts = sorted((json.dumps([name, spec]) for name, spec in charts.items()), key=len)
    cores = len(os.sched_getaffinity(0))
    number = max(1, min(cores, _MOST_PROCESSES, len(texts)))
    for first in range(number):
        yield "\n".join(texts[::-1][first::number])


def _start(charts: str, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline.pictures", str(folder)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # its own message tells why it ended
        process.stdin.write(charts)
        process.stdin.close()
    process.stdin = None
    return process


def _problem(process: subprocess.Popen[str]) -> str | None:
    _, said = process.communicate()
    if process.returncode == 0:
        return None
    return f"figures cannot be drawn: {said.strip().rpartition(chr(10))[2]}"


def _main() -> None:
    (folder,) = sys.argv[1:]
    for line in sys.stdin.read().splitlines():
        name, spec = json.loads(line)
        write_pictures(spec, Path(folder), name)


if __name__ == "__main__":
    _main()
