"""Charts as files."""

import pytest

from paceline.pictures import being_drawn

CHART = {
    "data": {"values": [{"a": 1, "b": 2}, {"a": 2, "b": 3}]},
    "mark": "line",
    "encoding": {
        "x": {"field": "a", "type": "quantitative"},
        "y": {"field": "b", "type": "quantitative"},
    },
}


def test_every_chart_is_written_in_every_form(tmp_path):
    with being_drawn({"one": CHART, "two": CHART}, tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.{suffix}" for name in ("one", "two") for suffix in ("pdf", "png", "svg")
    ]
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_a_chart_that_cannot_be_drawn_is_told(tmp_path):
    with pytest.raises(OSError, match="figures cannot be drawn"), being_drawn({"x": {}}, tmp_path):
        pass
