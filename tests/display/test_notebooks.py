"""Progress in a notebook, and when any is shown."""

import io
import sys
from types import SimpleNamespace

import pytest

from paceline.comparing import Audience
from paceline.display import choice, notebooks
from paceline.engine.progress import RunView
from paceline.spec import RunSpec

SPEC = RunSpec.from_table({"workload": {"name": "logistic-mnist", "subset": "tenth"}})
VIEW = RunView.preparing("reading rows", 1, 2)


def as_a_notebook_shows(text: str) -> list[str]:
    """The lines that are left when each carriage return goes back to the beginning of its line."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_one_line_is_written_over_and_nothing_of_it_stays(monkeypatch):
    monkeypatch.setattr(notebooks, "_EVERY_S", 0.0)
    stream = io.StringIO()
    with notebooks.watching(SPEC, stream) as watch:
        watch(VIEW)
        assert as_a_notebook_shows(stream.getvalue()) == [
            "logistic-mnist · single · local · reading rows: 50 %"
        ]
        watch(RunView.preparing("", 1, 1))
        assert as_a_notebook_shows(stream.getvalue()) == [
            "logistic-mnist · single · local · : 100 %"
        ]
    assert as_a_notebook_shows(stream.getvalue()) == [""]


def test_what_is_urgent_stays_and_is_told_once(monkeypatch):
    monkeypatch.setattr(notebooks, "_EVERY_S", 0.0)
    stream = io.StringIO()
    from dataclasses import replace

    with notebooks.watching(SPEC, stream) as watch:
        for _ in range(3):
            watch(replace(VIEW, alerts=("worker1 is stuck",)))
    assert as_a_notebook_shows(stream.getvalue()) == ["warning: worker1 is stuck", ""]


def test_a_browser_is_not_flooded():
    stream = io.StringIO()
    with notebooks.watching(SPEC, stream) as watch:
        for _ in range(100):
            watch(VIEW)
    assert stream.getvalue().count("reading rows") < 100


def test_what_a_comparison_says_in_advance_stays():
    stream = io.StringIO()
    with notebooks.following(stream) as audience:
        audience.prepare("reading rows", 1, 2)
        audience.say(["4 sides.", "2 threads each."])
    assert as_a_notebook_shows(stream.getvalue()) == ["4 sides.", "2 threads each.", ""]


@pytest.fixture
def shell(monkeypatch):
    """A module as IPython's own, whose shell a test chooses."""

    def be(shell):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    return be


def test_a_kernel_is_told_from_a_terminal(shell):
    assert not notebooks.is_notebook()
    shell(None)
    assert not notebooks.is_notebook()
    shell(SimpleNamespace(kernel=None))
    assert not notebooks.is_notebook()
    shell(SimpleNamespace(kernel=object()))
    assert notebooks.is_notebook()


@pytest.mark.parametrize(
    ("progress", "in_notebook", "shown"),
    [
        (None, False, ""),
        (None, True, "stdout"),
        (True, False, "stderr"),
        (True, True, "stdout"),
        (False, False, ""),
        (False, True, ""),
    ],
)
def test_when_progress_is_shown_and_where(progress, in_notebook, shown, shell, capsys):
    shell(SimpleNamespace(kernel=object() if in_notebook else None))
    with choice.watching(SPEC, progress) as watch:
        watch(VIEW)
    with choice.following(progress) as audience:
        assert isinstance(audience, Audience)
        audience.say(["4 sides."])
    out, err = capsys.readouterr()
    assert (shown == "stdout") == ("reading rows" in out and "4 sides." in out)
    assert (shown == "stderr") == ("reading rows" in err and "4 sides." in err)
    assert bool(shown) == bool(out + err)
