"""Charts as SVG, PNG and PDF, drawn by as many processes as there are cores.

vl-convert holds Python's lock while it draws, so threads would wait for each other. A process of
this module reads what to do from its standard input and imports next to nothing else. Making an
SVG of a chart takes an engine, which takes half a second to start; making PNG and PDF of an SVG
takes none, and about as long. So half of the processes draw, and the others only print.

Files are written in a font that vl-convert has in itself, so they look the same from any machine.
Where the machine has files of the same font, vl-convert prefers those, and opens them anew for
every letter, which takes a quarter of the time: they are hidden from it, where that is allowed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, final

from paceline.system import linux
from paceline.system.interpreter import own_command

Chart = dict[str, Any]
"""A chart as Vega-Lite."""

_SCALE: Final = 1.5
# Each process has to start its own engine: more of them would not pay.
_MOST_PROCESSES: Final = 4
_DONE: Final = "done\n"
# The font that vl-convert has in itself, and others of the same widths for who opens an SVG.
_FONT: Final = "'Liberation Sans', Arial, Helvetica, sans-serif"
_FONT_FILES: Final = "LiberationSans-*.ttf"
_FONT_FOLDERS: Final = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
)
# How a process ends that could not draw all of its charts.
_SOME_FAILED: Final = 3
_LIMITS: Final = {
    "axis": ("labelLimit", "titleLimit"),
    "axisX": ("labelLimit", "titleLimit"),
    "axisY": ("labelLimit", "titleLimit"),
    "legend": ("labelLimit", "titleLimit"),
    "header": ("labelLimit", "titleLimit"),
    "title": ("limit",),
}


@final
class Drawer:
    """Processes that draw charts and print what was drawn.

    They get ready as soon as this is made, while the caller still reads runs and makes charts.
    """

    def __init__(self) -> None:
        number = max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES))
        self._desk = _Desk()
        self._pens = [_Pen(self._desk, draws=index % 2 == 0) for index in range(number)]

    def draw(self, chart: Chart, folder: Path, name: str) -> None:
        """Have a chart drawn into a folder; returns at once."""
        self._desk.put(_Job(str(folder), name, json.dumps(chart)))

    def finish(self) -> None:
        """Wait until all is drawn. Raises `OSError` with what a process said if something is not.

        Nothing can be drawn after it.
        """
        self._desk.no_more()
        problems = [pen.problem() for pen in self._pens]
        if any(problems):
            raise OSError("; ".join(filter(None, problems)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._desk.give_up()
        for pen in self._pens:
            pen.put_down()


class _Job(NamedTuple):
    """A chart to be drawn; without one, a drawing that is there and to be printed."""

    folder: str
    name: str
    chart: str | None
    """As JSON."""


@final
class _Desk:
    """What is still to be done. Used by whoever has charts, and by the thread of each pen."""

    def __init__(self) -> None:
        self._charts: deque[_Job] = deque()
        self._drawn: deque[_Job] = deque()
        self._num_being_drawn = 0
        self._more_may_come = True
        self._is_given_up = False
        self._changed = threading.Condition()

    def put(self, job: _Job) -> None:
        with self._changed:
            self._charts.append(job)
            self._changed.notify_all()

    def no_more(self) -> None:
        with self._changed:
            self._more_may_come = False
            self._changed.notify_all()

    def give_up(self) -> None:
        """Leave undone what is left, and what still comes."""
        with self._changed:
            self._is_given_up = True
            self._changed.notify_all()

    def take(self, *, draws: bool) -> _Job | None:
        """Wait for the next thing to do: for who draws a chart, if there is one; None at the end.

        A chart that was taken has to be given back as `drawn`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_something_for(draws=draws) or self._is_over)
            if self._is_given_up:
                return None
            if draws and self._charts:
                self._num_being_drawn += 1
                return self._charts.popleft()
            return self._drawn.popleft() if self._drawn else None

    def drawn(self, job: _Job, *, well: bool) -> None:
        with self._changed:
            self._num_being_drawn -= 1
            if well:
                self._drawn.append(job._replace(chart=None))
            self._changed.notify_all()

    def _is_something_for(self, *, draws: bool) -> bool:
        return bool(self._drawn) or (draws and bool(self._charts))

    @property
    def _is_over(self) -> bool:
        left = self._more_may_come or self._charts or self._num_being_drawn or self._drawn
        return self._is_given_up or not left


@final
class _Pen:
    """One process, and the thread that hands it the next job whenever it has done the one before.

    A pen that does not draw prints, and has no engine.
    """

    def __init__(self, desk: _Desk, *, draws: bool) -> None:
        self._desk, self._draws = desk, draws
        # A file, not a pipe: however much is said, nobody has to read it meanwhile.
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed when it is put down
        self._process = subprocess.Popen(
            own_command("paceline.exhibits.pictures", *(["--draws"] if draws else [])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        while (job := self._desk.take(draws=self._draws)) is not None:
            answer = self._have_done(job)
            if not answer:  # it has ended; its own message tells why, and nobody waits for it
                self._desk.give_up()
            if job.chart is not None:
                self._desk.drawn(job, well=answer == _DONE)
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        with contextlib.suppress(OSError):
            to.close()
        self._process.wait()
        back.close()

    def _have_done(self, job: _Job) -> str:
        """Give what the process answered; nothing if it is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{json.dumps(job)}\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()
        return ""

    def problem(self) -> str | None:
        """Wait for its end, and give what it said if that was a bad one."""
        self._thread.join()
        if self._process.returncode == 0:
            return None
        self._said.seek(0)
        lines = self._said.read().strip().splitlines() or ["it ended"]
        # What it says itself has a line a chart; an error of Python's own ends in what it is.
        told = "; ".join(lines) if self._process.returncode == _SOME_FAILED else lines[-1]
        return f"figures cannot be drawn: {told}"

    def put_down(self) -> None:
        self._process.kill()  # which a process that has ended does not mind
        self._thread.join()
        self._said.close()


def _draw(chart: Chart, path: Path) -> None:
    """Write one chart as SVG, on white."""
    path.write_text(svg_of(chart), encoding="utf-8")


def svg_of(chart: Chart) -> str:
    """Draw a chart in this process, on white."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_on_paper(chart))
    return svg


def _print(path: Path) -> None:
    """Write an SVG as PNG and PDF."""
    import vl_convert

    svg = path.read_text(encoding="utf-8")
    _write_png(vl_convert.svg_to_png(svg, scale=_SCALE), path.with_suffix(".png"))
    path.with_suffix(".pdf").write_bytes(vl_convert.svg_to_pdf(svg))


def _on_paper(chart: Chart) -> Chart:
    """Give a chart for a file: white, and no text cut short, as it is on a narrow page.

    To know whether a text must be cut, the engine measures it again and again: a third of the time.
    """
    config = dict(chart.get("config", {}))
    for part, limits in _LIMITS.items():
        config[part] = {**config.get(part, {}), **dict.fromkeys(limits, 0)}
    return chart | {"background": "white", "config": config | {"font": _FONT}}


def _write_png(content: bytes, path: Path) -> None:
    """Write a picture without the transparency that it does not have: a third of the size."""
    from io import BytesIO

    from PIL import Image

    Image.open(BytesIO(content)).convert("RGB").save(path, compress_level=1)


def _do(job: _Job) -> None:
    path = Path(job.folder) / f"{job.name}.svg"
    if job.chart is None:
        _print(path)
    else:
        _draw(json.loads(job.chart), path)


def _prefer_own_font() -> None:
    """Hide the machine's files of the font that is there without them."""
    with contextlib.suppress(OSError, RuntimeError):  # not allowed: then it takes longer; no home
        folders = [Path(each).expanduser() for each in _FONT_FOLDERS]
        files = [str(file) for folder in folders for file in folder.rglob(_FONT_FILES)]
        if files:
            linux.hide(files)


def _main() -> None:
    _prefer_own_font()  # before there are threads: they could not move together
    import vl_convert

    if "--draws" in sys.argv:
        # The engine starts with its first chart, which takes longer than any other.
        vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "point"})
    failed = False
    for line in sys.stdin:
        job = _Job(*json.loads(line))
        answer = _DONE
        try:
            _do(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other charts are drawn
            failed, answer = True, "failed\n"
            sys.stderr.write(f"{job.name}: {str(error).strip().partition(chr(10))[0]}\n")
        sys.stdout.write(answer)
        sys.stdout.flush()
    sys.exit(_SOME_FAILED if failed else 0)


if __name__ == "__main__":
    _main()
