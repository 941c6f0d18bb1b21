"""Charts as files."""

import pytest

from paceline.pictures import drawing_processes

CHART = {
    "data": {"values": [{"a": 1, "b": 2}, {"a": 2, "b": 3}]},
    "mark": "line",
    "encoding": {
        "x": {"field": "a", "type": "quantitative"},
        "y": {"field": "b", "type": "quantitative"},
    },
}


def test_every_chart_is_written_in_every_form(tmp_path):
    with drawing_processes(tmp_path) as draw:
        draw({"one": CHART, "two": CHART})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.{suffix}" for name in ("one", "two") for suffix in ("pdf", "png", "svg")
    ]
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_a_chart_that_cannot_be_drawn_is_told(tmp_path):
    with (
        pytest.raises(OSError, match="figures cannot be drawn"),
        drawing_processes(tmp_path) as draw,
    ):
        draw({"x": {}})


def test_processes_that_get_nothing_to_draw_end(tmp_path):
    with pytest.raises(ZeroDivisionError), drawing_processes(tmp_path):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
