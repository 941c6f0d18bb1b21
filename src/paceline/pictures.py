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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

Charts = Mapping[str, dict[str, Any]]

_SCALE: Final = 1.5
# Each process has to start its own engine: more of them would not pay.
_MOST_PROCESSES: Final = 4


Draw = Callable[[Charts], None]


@contextlib.contextmanager
def drawing_processes(folder: Path) -> Iterator[Draw]:
    """Give a function that takes all charts, by the names of their files; ends when all are drawn.

    The processes get ready while the caller still makes the charts. Raises `OSError` with what a
    process said if a chart cannot be drawn.
    """
    number = max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES))
    started = [_start(folder) for _ in range(number)]
    try:
        yield partial(_hand_out, started)
        problems = [_problem(process) for process in started]
    finally:
        for process in started:
            process.kill()  # which a process that has ended does not mind
            process.communicate()
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

    Image.open(BytesIO(content)).convert("RGB").save(path, compress_level=3)


def _start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "paceline.pictures", str(folder)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def _hand_out(processes: Sequence[subprocess.Popen[str]], charts: Charts) -> None:
    """Deal charts out, the largest first, so that all processes have about the same to do."""
    texts = sorted((json.dumps([name, spec]) for name, spec in charts.items()), key=len)[::-1]
    for first, process in enumerate(processes):
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its own message tells why it ended
            process.stdin.write("\n".join(texts[first :: len(processes)]))
            process.stdin.close()
        process.stdin = None


def _problem(process: subprocess.Popen[str]) -> str | None:
    assert process.stderr is not None
    said = process.stderr.read()
    if process.wait() == 0:
        return None
    return f"figures cannot be drawn: {said.strip().rpartition(chr(10))[2]}"


def _main() -> None:
    import vl_convert

    (folder,) = sys.argv[1:]
    # The engine starts with its first chart, which takes longer than any other.
    vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "point"})
    for line in sys.stdin.read().splitlines():
        name, spec = json.loads(line)
        write_pictures(spec, Path(folder), name)


if __name__ == "__main__":
    _main()
