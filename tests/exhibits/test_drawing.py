"""The kinds of chart: each valid Vega-Lite, and read as was meant."""

import polars
import pytest
from jsonschema import ValidationError

from paceline.exhibits import drawing
from paceline.exhibits.marks import Mark
from paceline.exhibits.values import Column, Figure, Table
from tests import vega_lite

FRAME = polars.DataFrame(
    {
        "run": ["ring", "ring", "ps-sync", "ps-sync"],
        "panel": ["a", "b", "a", "b"],
        "x": [1, 2, 1, 2],
        "y": [1.0, None, 3.0, 4.0],
        "raw": [1.1, 2.1, 3.1, 4.1],
    }
)
X = Column(name="x", label="x", unit="s", form=".1f")
Y = Column(name="y", label="y", unit="%", form=".1f", scale=100)
RAW = Column(name="raw", label="raw", form=".1f")
SIDES = {"by": "run", "strategies": {"ring": "ring", "ps-sync": "ps-sync"}}
MARKS = [
    Mark(at=1.25, label="kill:worker1@1.25s", line="ring"),
    Mark(at=1.25, label="kill:worker1@1.25s", line="ps-sync"),
    Mark(at=1.5, label="worker2 lost", line="ring"),
]
ONE_EACH = FRAME.filter(panel="a")

CHARTS = {
    "lines": lambda: drawing.lines(FRAME, X, Y, **SIDES),
    "lines with raw ones": lambda: drawing.lines(FRAME, X, Y, faint=RAW, step=True, **SIDES),
    "lines with marks": lambda: drawing.lines(FRAME, X, Y, marks=MARKS, **SIDES),
    "panels with marks": lambda: drawing.lines(FRAME, X, Y, panels="panel", marks=MARKS, **SIDES),
    "lines in panels": lambda: drawing.lines(FRAME, X, Y, panels="panel", zero=True, **SIDES),
    "points": lambda: drawing.points(FRAME, X, Y, **SIDES),
    "points with a rule": lambda: drawing.points(FRAME, X, Y, rule=RAW, ordinal=True, **SIDES),
    "bars": lambda: drawing.bars(ONE_EACH, Y, **SIDES),
    "bars with spread": lambda: drawing.bars(ONE_EACH, Y, low="x", high="raw", rule=1.0, **SIDES),
    "stacked": lambda: drawing.stacked(
        FRAME, RAW, part="panel", parts={"a": "#111111", "b": "#222222"}, **SIDES
    ),
    "histogram": lambda: drawing.histogram(FRAME, X, RAW, **SIDES),
}


def spec_of(kind: str) -> dict:
    table = Table(name="t", title="T", frame=FRAME, columns=(X, Y))
    figure = Figure(name="f", title="F", table=table, draw=lambda _: CHARTS[kind]())
    return figure.spec()


@pytest.mark.parametrize("kind", CHARTS)
def test_every_kind_is_valid_vega_lite(kind):
    vega_lite.check(spec_of(kind))


def test_a_chart_that_is_not_valid_would_be_found():
    with pytest.raises(ValidationError, match="'very' is not of type"):
        vega_lite.check(spec_of("bars") | {"width": "very"})


def test_values_are_drawn_in_their_unit():
    (values,) = spec_of("lines")["datasets"].values()
    assert values.splitlines() == [
        "run,x,y",
        "ring,1.0,100.0",
        "ring,2.0,",
        "ps-sync,1.0,300.0",
        "ps-sync,2.0,400.0",
    ]


def test_a_mark_has_a_rule_for_each_line_and_one_label():
    _, rule, text = spec_of("lines with marks")["layer"]
    drawn = spec_of("lines with marks")["datasets"] if "name" in rule["data"] else None
    rules, labels = (
        each["data"].get("values") or drawn[each["data"]["name"]] for each in (rule, text)
    )
    assert [(each["run"], each["x"]) for each in rules] == [
        ("ring", 1.25),
        ("ps-sync", 1.25),
        ("ring", 1.5),
    ]
    assert {each["label"] for each in labels} == {"kill:worker1@1.25s", "worker2 lost"}
    assert len(labels) == 2


def test_many_marks_are_rules_without_labels():
    many = [Mark(at=i, label=f"worker{i} lost", line="ring") for i in range(20)]
    layers = drawing.lines(FRAME, X, Y, marks=many, **SIDES).to_dict()["layer"]
    assert [each["mark"]["type"] for each in layers] == ["line", "rule"]


def marks(num_lines: int, num_points: int) -> bool:
    """Whether lines of so many points show them."""
    rows = [
        {"run": f"ring {line}", "x": point, "y": 1.0}
        for line in range(num_lines)
        for point in range(num_points)
    ]
    sides = {f"ring {line}": "ring" for line in range(num_lines)}
    chart = drawing.lines(polars.DataFrame(rows), X, Y, by="run", strategies=sides)
    return bool(chart.to_dict()["mark"]["point"])


@pytest.mark.parametrize(
    ("num_lines", "num_points", "is_shown"),
    [(3, 20, True), (3, 300, False), (24, 20, False), (500, 1, True)],
)
def test_few_points_are_shown_and_of_many_only_lines(num_lines, num_points, is_shown):
    assert marks(num_lines, num_points) is is_shown
