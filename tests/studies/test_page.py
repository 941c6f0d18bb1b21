"""The page of a study, as a browser shows it."""

from pathlib import Path

import pytest

from paceline import reporting
from paceline.exhibits.values import Page
from paceline.studies import load
from paceline.studies.base import page_of
from paceline.studies.grid import Grid
from tests.browser import MARKS, Browser, browser, executable
from tests.studies.made_evidence import made_evidence

NAME = "ps-vs-ring"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[Page, Path]:
    executable()  # before anything is made: without a browser there is nothing to test
    evidence = made_evidence(tmp_path_factory.mktemp("runs"), NAME)
    page = page_of(load(NAME), Grid.read(NAME), "quick", evidence)
    return page, reporting.write(page, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize("width", [1400, 400])
def test_every_figure_is_drawn_and_nothing_is_fetched(
    written: tuple[Page, Path], chromium: Browser, width: int
):
    page, path = written
    chromium.open(path, width)
    assert chromium.complaints == []
    assert chromium.requests == [path.resolve().as_uri()]
    drawn = chromium.evaluate(MARKS)
    assert {name for name, _, _ in drawn} == set(load(NAME).figures)
    assert [name for name, marks, _ in drawn if marks == 0] == []
    assert [name for name, _, fits in drawn if not fits] == []
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    shown = chromium.evaluate("document.body.innerText")
    assert [each.key for each in page.claims if each.key not in shown] == []
