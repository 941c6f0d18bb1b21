"""Moments that are marked on a chart over time, such as those at which faults struck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from paceline.exhibits.palette import colours

INK: Final = "currentColor"
# Of more marks only the rules are drawn: their labels would cover each other and the lines.
_MOST_LABELS: Final = 8


@final
@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened to one line of a chart."""

    at: float
    label: str
    line: str
    """Which line it is of: its colour is the mark's."""


def rules(marks: Sequence[Mark], by: str, strategies: Mapping[str, str], x: str) -> list[Any]:
    """Make the layers of some marks: a dashed rule for each, and its label where there is room.

    What happened to several lines alike is labelled once.
    """
    import altair as alt

    if not marks:
        return []
    shades = colours(strategies)
    colour = alt.Color(
        by,
        type="nominal",
        scale=alt.Scale(domain=list(shades), range=list(shades.values())),
        legend=None,
    )
    across = alt.X(x, type="quantitative")
    rule = (
        alt.Chart(_values(marks, by, x))
        .mark_rule(strokeDash=[3, 3], strokeWidth=1.2, opacity=0.8)
        .encode(x=across, color=colour, tooltip=[alt.Tooltip("label", type="nominal", title=" ")])
    )
    labelled = {each.label: each for each in reversed(marks)}
    if len(labelled) > _MOST_LABELS:
        return [rule]
    text = (
        alt.Chart(_values(list(labelled.values()), by, x))
        .mark_text(angle=270, align="right", baseline="bottom", dy=-3, fontSize=10, color=INK)
        .encode(x=across, y=alt.value(4), text=alt.Text("label", type="nominal"))
    )
    return [rule, text]


def _values(marks: Sequence[Mark], by: str, x: str) -> Any:
    import altair as alt

    rows = [{x: round(each.at, 3), "label": each.label, by: each.line} for each in marks]
    return alt.InlineData(values=rows)
