"""The few kinds of chart that reports use, in one style.

Ink is `currentColor`: black in a file, and on a page whatever its text is, light, dark or printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from paceline.exhibits.marks import Mark, rules
from paceline.exhibits.palette import colours, dashes
from paceline.exhibits.values import Column

if TYPE_CHECKING:
    import altair
    import polars

WIDTH: Final = 640
HEIGHT: Final = 300
PANEL_WIDTH: Final = 290
PANEL_HEIGHT: Final = 170

_INK: Final = "currentColor"
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
# How much further than the longest bar the axis goes, so that its number has a place.
_ROOM_FOR_TEXT: Final = 1.15
# Lines of few points show them, unless there are many in all: each takes time to draw.
_FEW_POINTS: Final = 40
_FEW_IN_ALL: Final = 400


def lines(
    frame: polars.DataFrame,
    x: Column,
    y: Column,
    *,
    by: str,
    strategies: Mapping[str, str],
    faint: Column | None = None,
    panels: str | None = None,
    zero: bool = False,
    step: bool = False,
    marks: Sequence[Mark] = (),
) -> altair.TopLevelMixin:
    """Draw a line for each value of column `by`, in the order and colours of `strategies`.

    `faint` is drawn thinly behind it: the raw values of a smoothed line. With `panels` there is a
    small chart for each value of that column. `marks` are moments of `x`, in its column's unit.
    """
    import altair as alt

    columns = [x, y, *([faint] if faint else [])]
    keys = list(dict.fromkeys([by, *([panels] if panels else [])]))
    data = _data(frame, keys, columns)
    colour = _colour(alt, by, strategies, frame)
    encoding = {
        "x": alt.X(x.name, type="quantitative", title=x.header, scale=alt.Scale(zero=True)),
        "color": colour,
    }
    scale = alt.Scale(zero=zero)
    line = (
        alt.Chart()
        .mark_line(
            point={"size": 28, "filled": True} if _shows_points(frame, keys) else False,
            interpolate="step-after" if step else "linear",
        )
        .encode(
            **encoding,
            y=alt.Y(y.name, type="quantitative", title=y.header, scale=scale),
            strokeDash=_dash(alt, by, strategies, frame),
            tooltip=[_tip(alt, by), _tip(alt, x), _tip(alt, y)],
        )
    )
    layers = [line]
    if faint is not None:
        raw = alt.Chart().mark_line(strokeOpacity=0.35, strokeWidth=1)
        layers.insert(0, raw.encode(**encoding, y=alt.Y(faint.name, type="quantitative")))
    layers += rules(marks, by, strategies, x.name)
    return _laid_out(alt, layers, data, panels=panels, legend=list(strategies))


def _shows_points(frame: polars.DataFrame, keys: Sequence[str]) -> bool:
    """Of a line of one point there would be nothing to see otherwise."""
    counts = frame.group_by(keys).len()["len"].to_list()
    is_short = max(counts, default=0) <= _FEW_POINTS and len(frame) <= _FEW_IN_ALL
    return is_short or min(counts, default=0) == 1


def points(
    frame: polars.DataFrame,
    x: Column,
    y: Column,
    *,
    by: str,
    strategies: Mapping[str, str],
    rule: Column | None = None,
    ordinal: bool = False,
    zero: bool = True,
) -> altair.TopLevelMixin:
    """Draw a line with a mark at each point: a measure over workers, batches or links.

    `rule` is a reference drawn as a thin dashed line, such as the ideal speed-up.
    """
    import altair as alt

    columns = [x, y, *([rule] if rule else [])]
    data = _data(frame, [by], columns)
    kind: Any = "ordinal" if ordinal else "quantitative"
    across = alt.X(x.name, type=kind, title=x.header, axis=alt.Axis(labelAngle=0))
    line = (
        alt.Chart()
        .mark_line(point={"size": 60, "filled": True})
        .encode(
            x=across,
            y=alt.Y(y.name, type="quantitative", title=y.header, scale=alt.Scale(zero=zero)),
            color=_colour(alt, by, strategies, frame),
            strokeDash=_dash(alt, by, strategies, frame),
            tooltip=[_tip(alt, by), _tip(alt, x), _tip(alt, y)],
        )
    )
    layers = [line]
    if rule is not None:
        ideal = alt.Chart().mark_line(strokeDash=[2, 3], strokeWidth=1, color=_INK, opacity=0.6)
        layers.insert(0, ideal.encode(x=across, y=alt.Y(rule.name, type="quantitative")))
    return _laid_out(alt, layers, data, legend=list(strategies))


def bars(
    frame: polars.DataFrame,
    value: Column,
    *,
    by: str,
    strategies: Mapping[str, str],
    low: str | None = None,
    high: str | None = None,
    rule: float | None = None,
) -> altair.TopLevelMixin:
    """Draw a lying bar for each value of `by`, with its spread from `low` to `high` where given.

    `rule` is a reference, such as a speed-up of 1.
    """
    import altair as alt
    import polars

    spread = [Column(name=each, label=each, scale=value.scale) for each in (low, high) if each]
    rows = frame.with_columns(_value_text(value, frame[value.name].to_list()))
    data = _data(rows, [by, "written"], [value, *spread])
    furthest = frame[high or value.name].cast(polars.Float64).max()
    assert isinstance(furthest, float)
    room = alt.Scale(domainMax=furthest * value.scale * _ROOM_FOR_TEXT)
    base = alt.Chart().encode(
        y=alt.Y(by, type="nominal", sort=list(strategies), title=None, axis=_SIDES_AXIS),
        x=alt.X(value.name, type="quantitative", title=value.header, scale=room),
        tooltip=[_tip(alt, by), _tip(alt, value)],
    )
    bar = base.mark_bar(height={"band": 0.7}).encode(color=_colour(alt, by, strategies))
    text = base.mark_text(align="left", dx=6, color=_INK, fontSize=11).encode(
        text=alt.Text("written", type="nominal"),
        **({"x": alt.X(high, type="quantitative")} if high else {}),
    )
    layers: list[Any] = [bar, text]
    if low and high:
        whisker = alt.Chart().mark_rule(color=_INK, strokeWidth=1.5)
        layers.insert(
            1,
            whisker.encode(
                y=alt.Y(by, type="nominal", sort=list(strategies)),
                x=alt.X(low, type="quantitative"),
                x2=alt.X2(high),
            ),
        )
    if rule is not None:
        mark = alt.Chart().mark_rule(color=_INK, strokeDash=[3, 3], opacity=0.7)
        layers.append(mark.encode(x=alt.datum(rule)))
    return _laid_out(alt, layers, data, height=_bars_height(len(frame)))


def stacked(
    frame: polars.DataFrame,
    value: Column,
    *,
    by: str,
    strategies: Mapping[str, str],
    part: str,
    parts: Mapping[str, str],
) -> altair.TopLevelMixin:
    """Draw a lying bar for each value of `by`, made of parts with colours of their own."""
    import altair as alt
    import polars

    rank = {name: number for number, name in enumerate(parts)}
    rows = frame.with_columns(rank=frame[part].replace_strict(rank, return_dtype=polars.Int64))
    data = _data(rows, [by, part, "rank"], [value])
    scale = alt.Scale(domain=list(parts), range=list(parts.values()))
    bar = (
        alt.Chart()
        .mark_bar(height={"band": 0.7})
        .encode(
            y=alt.Y(by, type="nominal", sort=list(strategies), title=None, axis=_SIDES_AXIS),
            x=alt.X(value.name, type="quantitative", title=value.header, stack="zero"),
            color=alt.Color(part, type="nominal", scale=scale, legend=alt.Legend(title=None)),
            order=alt.Order("rank", type="quantitative"),
            tooltip=[_tip(alt, by), _tip(alt, part), _tip(alt, value)],
        )
    )
    num_bars = frame[by].n_unique()
    return _laid_out(alt, [bar], data, legend=list(parts), height=_bars_height(num_bars))


def histogram(
    frame: polars.DataFrame,
    x: Column,
    y: Column,
    *,
    by: str,
    strategies: Mapping[str, str],
) -> altair.TopLevelMixin:
    """Draw how often each whole number occurred, one panel for each value of `by`."""
    import altair as alt

    data = _data(frame, [by], [x, y])
    bar = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X(x.name, type="ordinal", title=x.header, axis=_FEW_LABELS),
            y=alt.Y(y.name, type="quantitative", title=y.header),
            color=_colour(alt, by, strategies),
            tooltip=[_tip(alt, by), _tip(alt, x), _tip(alt, y)],
        )
    )
    is_one = frame[by].n_unique() == 1
    return _laid_out(alt, [bar], data, panels=None if is_one else by)


def _value_text(column: Column, values: Sequence[object]) -> polars.Series:
    """Write values as they stand beside bars."""
    import polars

    return polars.Series("written", [column.text(value) for value in values])


def styled(chart: Any) -> altair.TopLevelMixin:
    """Put a chart of another kind into the style of these."""
    made: altair.TopLevelMixin = chart.configure(**_CONFIG)
    return made


_SIDES_AXIS: Final[Any] = {"ticks": False, "domain": False, "labelPadding": 8}
_FEW_LABELS: Final[Any] = {"labelAngle": 0, "labelOverlap": True}


def _data(frame: polars.DataFrame, names: Sequence[str], columns: Sequence[Column]) -> Any:
    """Give the values to draw, each in its column's unit, to five digits.

    As CSV within the chart: names of columns are not repeated for every point.
    """
    import altair as alt
    from polars import Float64, col

    numbers = {column.name: column for column in columns if frame[column.name].dtype.is_numeric()}
    texts = [column.name for column in columns if column.name not in numbers]
    chosen = frame.select(
        *dict.fromkeys([*names, *texts]),
        *(
            (col(name).cast(Float64) * column.scale).round_sig_figs(5)
            for name, column in numbers.items()
        ),
    )
    kinds: Any = dict.fromkeys(numbers, "number") | dict.fromkeys([*names, *texts], "string")
    kinds.pop("rank", None)
    return alt.InlineData(
        values=chosen.write_csv(null_value=""), format=alt.CsvDataFormat(type="csv", parse=kinds)
    )


def _laid_out(
    alt: Any,
    layers: Sequence[Any],
    data: Any,
    *,
    panels: str | None = None,
    legend: Sequence[str] = (),
    height: int = HEIGHT,
) -> altair.TopLevelMixin:
    """Join the layers of a chart, in panels where asked for, in our style.

    How many columns a legend has follows from the longest of its labels and the width there is; a
    page that has less width counts again.
    """
    chart = alt.layer(*layers) if len(layers) > 1 else layers[0]
    if panels is None:
        chart = chart.properties(data=data, width=WIDTH, height=height)
    else:
        chart = chart.properties(width=PANEL_WIDTH, height=PANEL_HEIGHT)
        header = alt.Header(title=None, labelColor=_INK, labelFontSize=12)
        cells = alt.Facet(panels, type="nominal", header=header, sort=None)
        chart = chart.facet(facet=cells, columns=2, data=data)
    longest = max(map(len, legend), default=0)
    columns = max(1, min(6, int(WIDTH / (longest * 7.2 + 40))))
    config = _CONFIG | {"legend": _CONFIG["legend"] | {"columns": columns}}
    chart = chart.properties(usermeta={"longest_label": longest})
    styled: altair.TopLevelMixin = chart.configure(**config)
    return styled


_TEXT: Final = {"labelColor": _INK, "titleColor": _INK}
_CONFIG: Final[dict[str, Any]] = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "line": {"strokeWidth": 2, "strokeJoin": "round"},
    "title": {
        "color": _INK,
        "subtitleColor": _INK,
        "anchor": "start",
        "fontSize": 15,
        "fontWeight": 600,
        "subtitleFontSize": 12,
        "offset": 12,
    },
    "axis": {
        **_TEXT,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "domainColor": _INK,
        "domainOpacity": 0.4,
        "tickColor": _INK,
        "tickOpacity": 0.4,
        "gridColor": _INK,
        "gridOpacity": 0.12,
    },
    "axisX": {"grid": False, "tickCount": 8, "labelOverlap": True},
    "axisY": {"domain": False, "ticks": False, "tickCount": 6, "labelLimit": 220},
    "legend": {
        **_TEXT,
        "orient": "top",
        "direction": "horizontal",
        "labelFontSize": 12,
        "labelLimit": 260,
        "symbolStrokeWidth": 3,
        "symbolOpacity": 1,
    },
}


def _colour(
    alt: Any, by: str, strategies: Mapping[str, str], frame: polars.DataFrame | None = None
) -> Any:
    """Colour by side; with a frame, a legend of the sides that are in it."""
    shades = colours(strategies)
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    shown = None if frame is None else _legend(alt, by, strategies, frame)
    return alt.Color(by, type="nominal", scale=scale, legend=shown)


def _dash(alt: Any, by: str, strategies: Mapping[str, str], frame: polars.DataFrame) -> Any:
    patterns = dashes(strategies)
    scale = alt.Scale(domain=list(patterns), range=list(patterns.values()))
    shown = _legend(alt, by, strategies, frame)
    return alt.StrokeDash(by, type="nominal", scale=scale, legend=shown)


def _legend(alt: Any, by: str, strategies: Mapping[str, str], frame: polars.DataFrame) -> Any:
    there = set(frame[by].unique())
    shown = [label for label in strategies if label in there]
    return alt.Legend(title=None, values=shown, symbolType="stroke")


def _tip(alt: Any, shown: Column | str) -> Any:
    if isinstance(shown, str):
        return alt.Tooltip(shown, type="nominal", title=" ")
    return alt.Tooltip(shown.name, type="quantitative", title=shown.header, format=",.4~g")


def _bars_height(num_bars: int) -> int:
    return 30 + 34 * num_bars
