"""Studies name the reports they follow by authors and titles."""

import re

import pytest

from paceline.studies import STUDIES, load
from paceline.studies.base import page_of
from paceline.studies.grid import Grid
from paceline.studies.reports import REPORTS
from tests.paths import ROOT
from tests.studies.made_evidence import made_evidence

NUMBER = re.compile(r"(?<![\d,._])\b00[0-4]\b(?![,._]\d)")


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_names_a_report_that_the_study_cites(name):
    grid = Grid.read(name)
    assert grid.after
    named = [each.short for each in grid.after]
    for said in grid.claims.values():
        assert NUMBER.search(said) is None
    told = " ".join([*grid.claims.values(), grid.reports])
    assert [each for each in REPORTS if each in told] == sorted(named, key=list(REPORTS).index)


def test_a_page_cites_them(tmp_path):
    name = "lenet-scaling"
    page = page_of(load(name), Grid.read(name), "quick", made_evidence(tmp_path, name))
    (section,) = (each for each in page.sections if each.title == "The reports")
    assert list(section.text) == [
        f"{each}: {REPORTS[each].full}." for each in ("Bhat et al.", "Shi")
    ]


def test_the_guides_have_them_in_full():
    guide = (ROOT / "docs" / "guide" / "studies.md").read_text()
    assert [each.full for each in REPORTS.values() if each.full not in guide] == []
    course = (ROOT / "docs" / "guide" / "course.md").read_text()
    assert NUMBER.search(course) is None
