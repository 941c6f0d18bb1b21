"""The page of a plan: rates and efficiency over machines, where who wins, cost over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import polars

from paceline.arithmetic.step import ComputeStep
from paceline.exhibits import drawing
from paceline.exhibits.values import Column, Exhibit, Figure, Page, Section, Table, table_of
from paceline.planning.advice import recommended
from paceline.planning.map import winners
from paceline.planning.plan import Plan, PlanRow, best_rows

if TYPE_CHECKING:
    import altair

    from paceline.planning.checked import Checked
    from paceline.planning.emulation import Verified

_MACHINES: Final = Column(name="machines", label="machines", form=",.0f")
_RATE: Final = Column(name="samples_per_s", label="rows per second", form=",.4g")
_EFFICIENCY: Final = Column(
    name="efficiency", label="efficiency", unit="%", form=".0f", scale=100.0
)
_HOURS: Final = Column(name="hours", label="hours", form=",.3g")
_COST: Final = Column(name="cost", label="cost", form=",.2f")
_LINK: Final = Column(name="link_gbit", label="link", unit="Gbit/s", form="g")
_RATIO: Final = Column(
    name="mb_per_s", label="model per second of computing", unit="MB/s", form=",.3g"
)


def plan_page(
    plan: Plan,
    sentences: Sequence[str],
    checked: Checked,
    verified: Sequence[Verified] = (),
) -> Page:
    """Make the page; every number on it is predicted, but for those marked as measured."""
    rows = _rows(list(best_rows(plan)), checked)
    sides = {row["strategy"]: row["strategy"] for row in rows}
    sections = [
        Section(title="Over machines", items=tuple(_over_machines(rows, sides, checked))),
        Section(title="Where each wins", items=(_map(plan),)),
        *([Section(title="Cost over time", items=(_cost(rows, sides, plan),))] * _priced(rows)),
        *([Section(title="Checked here", items=(_verified(verified),))] if verified else []),
        Section(title="Every candidate", items=(_all(plan),), folded=True),
        Section(title="What this rests on", text=tuple(_background(plan, checked))),
    ]
    return Page(
        title=f"Plan: {plan.basis.title}",
        subtitle=f"batch {plan.basis.batch}, links of {plan.scenario.link / 1e9:g} Gbit/s",
        conclusion=(*sentences, checked.sentence),
        labels=("predicted, not measured",),
        sections=tuple(sections),
    )


def _rows(chosen: Sequence[PlanRow], checked: Checked) -> list[dict[str, Any]]:
    """Give the rows to draw; with a band on as many machines as were ever checked."""
    off = checked.nine_in_ten
    return [
        {
            **asdict(row),
            "low": row.samples_per_s / (1 + off) if row.machines <= checked.most_nodes else None,
            "high": row.samples_per_s * (1 + off) if row.machines <= checked.most_nodes else None,
            "hours": (row.seconds or 1e6 / row.samples_per_s) / 3600,
            "cost": row.cost if row.seconds is not None else row.cost_per_million,
        }
        for row in chosen
    ]


def _priced(rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row["cost"] is not None for row in rows)


def _over_machines_table(rows: list[dict[str, Any]], checked: Checked) -> Table:
    label = Column(name="label", label="strategy")
    limit = Column(name="limit", label="limited by")
    speed_up = Column(name="speed_up", label="speed-up", form=".2f")
    low, high = (Column(name=n, label=f"{n}est", form=",.4g") for n in ("low", "high"))
    return table_of(
        "over-machines",
        "Predicted",
        rows,
        [
            _MACHINES,
            label,
            Column(name="strategy", label="kind"),
            _RATE,
            low,
            high,
            speed_up,
            _EFFICIENCY,
            limit,
        ],
        note=f"Of each strategy the quickest number of servers. {_of_bands(rows, checked)}",
    )


def _of_bands(rows: Sequence[Mapping[str, Any]], checked: Checked) -> str:
    if not checked.cases:
        return "How far predictions are off was not checked: there is no band."
    most, beyond = checked.most_nodes, any(row["low"] is None for row in rows)
    unchecked = f" Beyond {most} machines nothing was checked: no band there." if beyond else ""
    return f"Lowest and highest: what nine in ten checked predictions were off.{unchecked}"


def _over_machines(
    rows: list[dict[str, Any]], sides: Mapping[str, str], checked: Checked
) -> list[Exhibit]:
    table = _over_machines_table(rows, checked)
    return [
        Figure(
            name="rate",
            title="Rows per second over machines",
            caption="All strategies, each with its quickest number of servers.",
            table=table,
            draw=lambda frame: _banded(frame, sides),
        ),
        Figure(
            name="efficiency",
            title="Efficiency over machines",
            caption="Rows per second over those of as many machines by themselves.",
            table=table,
            draw=lambda frame: drawing.points(
                frame, _MACHINES, _EFFICIENCY, by="strategy", strategies=sides
            ),
        ),
        table,
    ]


def _banded(frame: polars.DataFrame, sides: Mapping[str, str]) -> altair.TopLevelMixin:
    """Lines with a band around each, where predictions have a known error."""
    import altair as alt

    from paceline.exhibits.palette import colours

    shades = colours(sides)
    scale = alt.Scale(domain=list(shades), range=list(shades.values()))
    shown = frame.select("machines", "strategy", "samples_per_s", "low", "high")
    base = alt.Chart(alt.InlineData(values=shown.to_dicts()))
    sure = alt.Chart(alt.InlineData(values=shown.drop_nulls().to_dicts()))
    across = alt.X("machines", type="quantitative", title="machines")
    colour = alt.Color("strategy", type="nominal", scale=scale, legend=alt.Legend(title=None))
    band = sure.mark_area(opacity=0.18).encode(
        x=across,
        y=alt.Y("low", type="quantitative", title="rows per second"),
        y2=alt.Y2("high"),
        color=colour,
    )
    line = base.mark_line(point={"size": 50, "filled": True}).encode(
        x=across, y=alt.Y("samples_per_s", type="quantitative"), color=colour
    )
    chart = alt.layer(band, line).properties(width=drawing.WIDTH, height=drawing.HEIGHT)
    return drawing.styled(chart)


def _map(plan: Plan) -> Figure:
    machines = max(recommended(plan).machines, min(4, max(plan.scenario.machines)))
    rows = [{**row, "link_gbit": row["link_bits_per_s"] / 1e9} for row in winners(plan, machines)]
    table = table_of(
        "map",
        f"Quickest synchronous strategy on {machines} machines",
        rows,
        [
            _LINK,
            _RATIO,
            Column(name="best", label="quickest"),
            Column(name="rows_per_s", label="rows per second", form=",.4g"),
        ],
        note="By closed forms; within 3 % of each other the first listed is named.",
    )
    return Figure(
        name="map",
        title=f"Where each strategy wins on {machines} machines",
        caption="Rightwards faster links; upwards more bytes to exchange for each second of "
        "computing. Of several within 3 % of each other the first that was asked for is named.",
        table=table,
        draw=_drawn_map,
    )


def _drawn_map(frame: polars.DataFrame) -> altair.TopLevelMixin:
    import altair as alt

    written = frame.with_columns(
        polars.col("mb_per_s")
        .map_elements(lambda v: f"{v:,.3g}", return_dtype=polars.String)
        .alias("ratio"),
    )
    order = written.sort("mb_per_s", descending=True)["ratio"].unique(maintain_order=True)
    chart = (
        alt.Chart(alt.InlineData(values=written.to_dicts()))
        .mark_rect()
        .encode(
            x=alt.X("link_gbit", type="ordinal", title=_LINK.header, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("ratio", type="ordinal", sort=order.to_list(), title=_RATIO.header),
            color=alt.Color("best", type="nominal", legend=alt.Legend(title=None)),
            tooltip=[alt.Tooltip("best", type="nominal", title=" ")],
        )
        .properties(width=drawing.WIDTH, height=drawing.HEIGHT)
    )
    return drawing.styled(chart)


def _cost(rows: list[dict[str, Any]], sides: Mapping[str, str], plan: Plan) -> Figure:
    samples = plan.scenario.samples or plan.basis.samples
    label = Column(name="label", label="strategy")
    kind = Column(name="strategy", label="kind")
    table = table_of("cost", "Cost over time", rows, [_MACHINES, label, kind, _HOURS, _COST])
    return Figure(
        name="cost",
        title=f"Cost over time to {samples or 1_000_000:,} rows",
        caption="Each point is a number of machines; to the left is sooner, downwards cheaper.",
        table=table,
        draw=lambda frame: drawing.points(
            frame, _HOURS, _COST, by="strategy", strategies=sides, zero=True
        ),
    )


def _verified(verified: Sequence[Verified]) -> Table:
    rows = [{**asdict(each), "error": each.error} for each in verified]
    columns = [
        Column(name="label", label="strategy"),
        _MACHINES,
        Column(name="predicted_per_s", label="predicted rows/s", form=",.4g"),
        Column(name="measured_per_s", label="measured rows/s", form=",.4g"),
        Column(name="error", label="error", unit="%", form="+.1f", scale=100.0),
        Column(name="dilation", label="dilated", form="g"),
        *([Column(name="failed", label="why not")] if any(e.failed for e in verified) else []),
    ]
    return table_of("verified", "Emulated here", rows, columns, labels=("measured, emulated",))


def _all(plan: Plan) -> Table:
    columns = [
        _MACHINES,
        Column(name="label", label="strategy"),
        Column(name="workers", label="workers", form=",.0f"),
        _RATE,
        Column(name="speed_up", label="speed-up", form=".2f"),
        _EFFICIENCY,
        Column(name="limit", label="limited by"),
        Column(name="limit_where", label="where"),
        Column(
            name="node_bytes_per_step",
            label="per node and step",
            unit="MB",
            form=",.3g",
            scale=1e-6,
        ),
        Column(name="memory_bytes", label="memory", unit="GB", form=".2g", scale=1e-9),
        Column(name="seconds", label="seconds", form=",.0f"),
        _COST,
    ]
    return table_of("candidates", "All candidates", [asdict(row) for row in plan.rows], columns)


def _variation(step: ComputeStep) -> str:
    if not step.factors:
        return "steps are taken to be alike"
    return f"{len(step.factors)} measured steps say how it varies"


def _background(plan: Plan, checked: Checked) -> list[str]:
    step, costs = plan.basis.step, plan.basis.costs
    said = [
        (
            f"A step computes {1e3 * step.compute_s:,.4g} ms and exchanges "
            f"{step.pushed_bytes / 1e6:,.4g} MB; {_variation(step)}."
        ),
        (
            f"A message costs {1e6 * costs.message_s:.3g} µs at each end, adding "
            f"{1e9 * costs.add_s_per_byte:.3g} ns and applying "
            f"{1e9 * costs.apply_s_per_byte:.3g} ns per byte."
        ),
        (
            "Memory is that of parameters, gradients, states and waiting chunks; what layers keep "
            "while computing comes on top."
        ),
        *plan.basis.notes,
    ]
    beyond = checked.beyond(max(plan.scenario.machines))
    never = "No number of nodes was ever checked." if not checked.cases else beyond
    return [*said, *filter(None, (checked.scope, never))]
