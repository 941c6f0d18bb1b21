"""The page of a plan: what was checked of it, and what was not."""

import pytest

from paceline.arithmetic.costs import NO_COSTS
from paceline.exhibits.values import Figure, Table
from paceline.planning.asking import asked, basis_of
from paceline.planning.checked import Checked
from paceline.planning.plan import Plan, make_plan
from paceline.reporting.plan_page import plan_page


def plan_of(**fields: object) -> Plan:
    asked_for = asked({"batch": 32, "rows_per_s": 100.0, "model_bytes": "100MB", **fields})
    return make_plan(asked_for.scenario, basis_of(asked_for, None, NO_COSTS))


def test_a_band_is_drawn_only_where_something_was_checked():
    some = Checked(cases=120, nine_in_ten=0.1, most_nodes=16, made_on="2026-11-18")
    plan = plan_of(machines=[1, 8, 64], strategies=["ring"])

    def over_machines(found: Checked) -> Table:
        (section,) = [e for e in plan_page(plan, [], found).sections if e.title == "Over machines"]
        (table,) = [each for each in section.items if isinstance(each, Table)]
        return table

    rows = {row["machines"]: row for row in over_machines(some).frame.to_dicts()}
    assert rows[8]["high"] == pytest.approx(1.1 * rows[8]["samples_per_s"])
    assert rows[64]["low"] is rows[64]["high"] is None
    assert "Beyond 16 machines nothing was checked" in over_machines(some).note
    unchecked = over_machines(Checked())
    assert unchecked.frame["low"].null_count() == len(unchecked.frame)
    assert "there is no band" in unchecked.note
    for figure in plan_page(plan, [], some).sections[0].items:
        if isinstance(figure, Figure):
            assert figure.draw(figure.table.frame).to_dict()
