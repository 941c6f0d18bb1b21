"""How far plans are off: the distribution of errors over measured cases, told and shipped."""

from __future__ import annotations

import datetime
import statistics
from pathlib import Path
from typing import Any

import tomli_w
from plan_cases import LABELS
from plan_measured import MOST_SPREAD, Row, error_of, is_counted, line

from paceline.description import build
from paceline.planning import checked
from paceline.planning.scenario import Scenario

PACKAGE = Path(checked.__file__).parent
BEST_WITHIN = 0.03
WANTED_MEDIAN, WANTED_NINE, WANTED_BEST, WANTED_CASES = 0.05, 0.10, 0.95, 100
# Fewer say too little to be shipped. Every plan says how many there were.
LEAST_CASES = 40
_BY = (
    *(("label",), ("model",), ("nodes",), ("link",), ("latency",)),
    *(("slower_link",), ("spread",), ("slower_node",)),
    *(("label", "link"), ("label", "latency"), ("label", "nodes")),
)


def best_named(rows: list[Row], *, whole: bool = False) -> tuple[int, int]:
    """Say in how many situations the one predicted best was best, or nearly, and of how many.

    `whole`: only of situations of which every strategy counted.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["key"], []).append(row)
    least = len(LABELS) if whole else 2
    # What a plan names follows from nominal links: a user has no others.
    choices = [group for group in groups.values() if len(group) >= least]
    right = 0
    for group in choices:
        named = max(group, key=lambda row: row["nominal"])
        best = max(group, key=lambda row: row["measured"])
        right += named["measured"] >= (1 - BEST_WITHIN) * best["measured"]
    return right, len(choices)


def summary(rows: list[Row]) -> checked.Checked:
    counted = [row for row in rows if is_counted(row)]
    errors = sorted(abs(error_of(row)) for row in counted)
    nominal = [abs(row["nominal"] / row["measured"] - 1) for row in counted]
    right, choices = best_named(counted)
    return checked.Checked(
        cases=len(errors),
        left_out=len(rows) - len(errors),
        median_error=statistics.median(errors) if errors else 0.0,
        nine_in_ten=errors[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else 0.0,
        worst_error=errors[-1] if errors else 0.0,
        nominal_median_error=statistics.median(nominal) if nominal else 0.0,
        choices=choices,
        choices_right=right,
        **_range(counted),
        made_on=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    )


def _range(counted: list[Row]) -> dict[str, Any]:
    """Say between what the cases lie that counted."""
    if not counted:
        return {}
    asked = [{key: row[key] for key in ("link", "latency")} for row in counted]
    scenarios = [build(Scenario, each, "") for each in asked]
    return {
        "least_nodes": min(row["nodes"] for row in counted),
        "most_nodes": max(row["nodes"] for row in counted),
        "least_link": min(each.link for each in scenarios),
        "most_link": max(each.link for each in scenarios),
        "most_latency": max(each.latency for each in scenarios),
        "labels": tuple(each for each in LABELS if any(row["label"] == each for row in counted)),
    }


def tell(rows: list[Row]) -> bool:
    """Print what came of it; says whether it is what was wanted."""
    counted = [row for row in rows if is_counted(row)]
    if not counted:
        print(f"no case counted of {len(rows)}; {_left_out(rows)}")
        return False
    for by in _BY:
        _tell_groups(by, counted)
    for row in sorted(counted, key=lambda row: -abs(error_of(row)))[:8]:
        print("worst: " + line(row))
    got = summary(rows)
    print(f"{got.sentence} ({_left_out(rows)})")
    right, choices = best_named(counted, whole=True)
    print(f"best strategy, of situations in which every one counted: {right} of {choices}")
    share = got.choices_right / got.choices if got.choices else 0.0
    met = (
        got.median_error <= WANTED_MEDIAN
        and got.nine_in_ten <= WANTED_NINE
        and share >= WANTED_BEST
        and got.cases >= WANTED_CASES
    )
    print(
        f"wanted: {WANTED_CASES} cases, median {WANTED_MEDIAN:.0%}, nine in ten {WANTED_NINE:.0%}, "
        f"best {WANTED_BEST:.0%} (got {share:.0%}): {'met' if met else 'MISSED'}"
    )
    return met


def _tell_groups(by: tuple[str, ...], counted: list[Row]) -> None:
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in counted:
        groups.setdefault(tuple(row[each] for each in by), []).append(error_of(row))
    for values, group in sorted(groups.items(), key=str):
        worst = max(group, key=abs)
        print(
            f"{', '.join(by):15} {', '.join(map(str, values)):40} {len(group):3} cases: median "
            f"{100 * statistics.median(group):+6.1f} %, of sizes "
            f"{100 * statistics.median(map(abs, group)):5.1f} %, worst {100 * worst:+6.1f} %"
        )


def _left_out(rows: list[Row]) -> str:
    limited = sum(bool(row.get("host_limited")) for row in rows)
    varied = sum("measured" in row and row["spread_of_runs"] > MOST_SPREAD for row in rows)
    refused, failed = (sum(key in row for row in rows) for key in ("refused", "failed"))
    return f"host-limited {limited}, varied {varied}, not possible here {refused}, failed {failed}"


def write(rows: list[Row], folder: Path = PACKAGE) -> bool:
    """Ship it with the package, where it is enough to be shipped; says whether it was."""
    got = summary(rows)
    if got.cases < LEAST_CASES:
        print(f"nothing written: {got.cases} cases counted, and {LEAST_CASES} are needed")
        return False
    path = folder / checked.FILE
    text = "# Written by `make bench-plan`: how far predictions were off. Not edited by hand.\n"
    path.write_text(text + tomli_w.dumps(dict(got.values())), encoding="utf-8")
    print(f"written to {path.resolve()}")
    return True
