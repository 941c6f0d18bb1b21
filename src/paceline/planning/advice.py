"""The recommendation: one sentence with its margin, a tie called a tie, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paceline.planning.candidates import in_text
from paceline.planning.plan import Plan, PlanRow

TIE: Final = 0.03
"""Two that are no further apart than this are alike: predictions are not better than that."""
# A further machine is worth its rent if it brings at least this part of a machine.
_LEAST_WORTH: Final = 0.5
_LIMITS: Final = {
    "compute": "computing",
    "link": "the link",
    "server": "the server's processor",
    "stragglers": "waiting for the slowest worker",
    "latency": "latency",
}


def recommended(plan: Plan) -> PlanRow:
    """Choose: the quickest that gives one worker's result, on as many machines as are worth it.

    With a price and a number of rows: on as many as cost no more than a tenth above the cheapest.
    """
    best = [_best_in_step(plan, count) for count in planned_counts(plan)]
    priced = [row.cost for row in best if row.cost is not None]
    if priced and len(priced) == len(best):
        limit = 1.1 * min(priced)
        return max(
            (row for row in best if row.cost is not None and row.cost <= limit),
            key=lambda row: row.samples_per_s,
        )
    chosen = best[0]
    for row in best[1:]:
        more = (row.samples_per_s - chosen.samples_per_s) / chosen.samples_per_s
        if more >= _LEAST_WORTH * (row.machines - chosen.machines) / chosen.machines:
            chosen = row
    return chosen


def planned_counts(plan: Plan) -> list[int]:
    """Give the numbers of machines of which anything is planned: servers may be too many."""
    return sorted({row.machines for row in plan.rows})


def _best_in_step(plan: Plan, machines: int) -> PlanRow:
    rows = plan.at(machines)
    in_step = [row for row in rows if row.in_step]
    return (in_step or rows)[0]


def sentences(plan: Plan) -> Iterator[str]:
    """Say what to do, why not more, and what is not known."""
    chosen = recommended(plan)
    yield _recommendation(plan, chosen)
    more = [count for count in planned_counts(plan) if count > chosen.machines]
    if more:
        yield _why_not_more(chosen, _best_in_step(plan, more[0]))
    missing = sorted({*plan.scenario.machines} - {*planned_counts(plan)})
    if missing:
        counts = ", ".join(map(str, missing))
        yield f"Nothing is planned for {counts} machines: more servers than machines are asked for."
    yield from _what_stale_ones_bring(plan, chosen)


def _recommendation(plan: Plan, chosen: PlanRow) -> str:
    machines = "1 machine" if chosen.machines == 1 else f"{chosen.machines} machines"
    start = (
        f"Use {named_in_text(chosen)} on {machines}: {per_s_text(chosen.samples_per_s)} rows/s, "
        f"{chosen.speed_up:.3g} times one machine, limited by {limit_text(chosen)}"
    )
    others = [row for row in plan.at(chosen.machines) if row.in_step and row is not chosen]
    if not others:
        return f"{start}."
    ahead = chosen.samples_per_s / others[0].samples_per_s - 1
    alike = [row for row in others if chosen.samples_per_s / row.samples_per_s - 1 <= TIE]
    if alike:
        named = ", ".join(map(named_in_text, alike))
        return f"{start}; a tie, within {100 * TIE:.0f} %, with {named}."
    return f"{start}; {100 * ahead:.0f} % above the next, {named_in_text(others[0])}."


def named_in_text(row: PlanRow) -> str:
    """Name a candidate so that it can stand in a list."""
    return in_text(row.label)


def per_s_text(value: float) -> str:
    """Write a rate with four digits, or all those before its point."""
    return f"{value:,.0f}" if value >= 1e4 else f"{value:,.4g}"


def limit_text(row: PlanRow) -> str:
    """Name what a step waits for."""
    if row.limit == "link" and row.limit_where != "links":
        return f"the {row.limit_where}"
    if row.limit == "link":
        return "the links"
    if row.limit == "server":
        return f"the processor of {row.limit_where}"
    return _LIMITS[row.limit]


def _why_not_more(chosen: PlanRow, more: PlanRow) -> str:
    brings = more.samples_per_s / chosen.samples_per_s
    return (
        f"{more.machines} machines would bring {brings:.2f} times that with {named_in_text(more)}, "
        f"limited by {limit_text(more)}."
    )


def _what_stale_ones_bring(plan: Plan, chosen: PlanRow) -> Iterator[str]:
    stale = [row for row in plan.at(chosen.machines) if not row.in_step]
    if not stale:
        return
    if not chosen.in_step:
        yield "Not known: what stale gradients do to accuracy. No strategy in step was asked for."
        return
    gain = stale[0].samples_per_s / chosen.samples_per_s - 1
    quicker = (
        f" {named_in_text(stale[0])} would make {100 * gain:.0f} % more rows/s."
        if gain > TIE
        else ""
    )
    yield (
        "Not known: what stale gradients do to accuracy. Asynchronous strategies are compared by "
        f"rows/s only and never recommended.{quicker}"
    )
