"""Charts as files."""

import os
import shutil
import subprocess
import sys

import pytest

from paceline.exhibits.pictures import Drawer
from paceline.system import linux
from paceline.system.attempts import attempt

CHART = {
    "data": {"values": [{"a": 1, "b": 2}, {"a": 2, "b": 3}]},
    "mark": "line",
    "encoding": {
        "x": {"field": "a", "type": "quantitative"},
        "y": {"field": "b", "type": "quantitative"},
    },
}
LONG = "a name that is too long for the space that a narrow page has for it, by far"


def test_every_chart_is_written_in_every_form(tmp_path):
    names = ("one", "two", "three", "four", "five")
    with Drawer() as drawer:
        for name in names:
            drawer.draw(CHART, tmp_path, name)
        drawer.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}.{suffix}" for name in names for suffix in ("pdf", "png", "svg")
    )
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_text_is_not_cut_short_in_a_file(tmp_path):
    chart = {
        "data": {"values": [{"a": LONG, "b": 1}]},
        "mark": "bar",
        "encoding": {"y": {"field": "a"}, "x": {"field": "b", "type": "quantitative"}},
        "config": {"axisY": {"labelLimit": 50}},
    }
    with Drawer() as drawer:
        drawer.draw(chart, tmp_path, "long")
        drawer.finish()
    assert LONG in (tmp_path / "long.svg").read_text()


def test_files_have_a_font_that_every_machine_has(tmp_path):
    with Drawer() as drawer:
        drawer.draw(CHART | {"config": {"font": "system-ui"}}, tmp_path, "one")
        drawer.finish()
    svg = (tmp_path / "one.svg").read_text()
    assert "Liberation Sans" in svg
    assert "system-ui" not in svg


def test_the_machines_own_files_of_that_font_are_not_opened_for_every_letter(tmp_path):
    if attempt(lambda: linux.hide([])):
        pytest.skip("cannot create a mount namespace here")
    font = tmp_path / ".fonts/LiberationSans-Regular.ttf"
    font.parent.mkdir()
    font.write_text("no font at all")
    look = "from paceline.exhibits import pictures; pictures._prefer_own_font(); "
    look += f"print(len(open('{font}').read()))"
    done = subprocess.run(
        [sys.executable, "-c", look],
        env=os.environ | {"HOME": str(tmp_path)},
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "0\n"
    assert font.read_text() == "no font at all"


def test_a_chart_that_cannot_be_drawn_is_told_and_the_others_are_drawn(tmp_path):
    with Drawer() as drawer:
        drawer.draw({}, tmp_path, "x")
        for name in ("one", "two"):
            drawer.draw(CHART, tmp_path, name)
        with pytest.raises(OSError, match="figures cannot be drawn: x: "):
            drawer.finish()
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {f"{name}.{form}" for name in ("one", "two") for form in ("svg", "png", "pdf")}


def test_processes_that_get_nothing_to_draw_end(tmp_path):
    with pytest.raises(ZeroDivisionError), Drawer():
        raise ZeroDivisionError
    with Drawer() as drawer:
        drawer.finish()
    assert not list(tmp_path.iterdir())


def test_whoever_gives_up_may_leave_charts_undrawn(tmp_path):
    with Drawer() as drawer:
        for number in range(50):
            drawer.draw(CHART, tmp_path, str(number))
    # Nothing writes any more, or the folder could not be removed for good.
    shutil.rmtree(tmp_path)
    assert not tmp_path.exists()


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("num_before", [0, 3])
def test_a_process_that_is_gone_is_told_and_not_waited_for(which, num_before, tmp_path):
    with Drawer() as drawer:
        for number in range(num_before):
            drawer.draw(CHART, tmp_path, f"before{number}")
        drawer._pens[which]._process.kill()
        drawer._pens[which]._process.wait()
        for number in range(5):
            drawer.draw(CHART, tmp_path, str(number))
        with pytest.raises(OSError, match="figures cannot be drawn"):
            drawer.finish()


def test_what_comes_after_a_process_is_gone_is_not_waited_for(tmp_path):
    with Drawer() as drawer:
        drawer._pens[0]._process.kill()
        drawer.draw(CHART, tmp_path, "one")
        drawer._pens[0]._thread.join()
        drawer.draw(CHART, tmp_path, "two")
        with pytest.raises(OSError, match="figures cannot be drawn"):
            drawer.finish()


def test_a_chart_that_is_no_json_is_refused_where_it_is_handed_in(tmp_path):
    with Drawer() as drawer, pytest.raises(TypeError):
        drawer.draw({"data": object()}, tmp_path, "x")
