"""A study that was stopped can be shown at any moment: of what is there, and of nothing else."""

import random

import pytest

from paceline.exhibits.values import Figure, Listing, Page, Table
from paceline.studies import STUDIES, load
from paceline.studies.base import page_of
from paceline.studies.evidence import Evidence
from paceline.studies.grid import Grid
from tests.studies.made_evidence import made_evidence, part_of


@pytest.fixture(scope="module", params=STUDIES)
def whole(request, tmp_path_factory) -> tuple[str, Evidence]:
    name = request.param
    return name, made_evidence(tmp_path_factory.mktemp(name), name)


def page(name: str, evidence: Evidence) -> Page:
    return page_of(load(name), Grid.read(name), "quick", evidence)


def some(evidence: Evidence, share: float, seed: int = 0) -> Evidence:
    names = sorted(evidence.runs)
    return part_of(evidence, set(random.Random(seed).sample(names, round(share * len(names)))))


def is_sound(shown: Page, name: str) -> bool:
    """Whether all that a study has is in its place, and nothing is drawn or judged of nothing."""
    study = load(name)
    named = [each.name for each in shown.items if hasattr(each, "name")]
    for figure in shown.figures:
        assert not figure.table.frame.is_empty(), figure.name
        assert figure.spec()["title"]["text"] == figure.title
    for claim in shown.claims:
        is_judged = claim.judgement != "cannot be tested here"
        assert claim.measured not in {"", "-"} if is_judged else claim.reason, claim.key
    return named[: len(study.tables) + len(study.figures)] == [*study.tables, *study.figures]


def test_without_any_run_nothing_is_claimed_and_every_place_says_why(whole):
    name, evidence = whole
    shown = page(name, part_of(evidence, set()))
    assert is_sound(shown, name)
    assert {each.judgement for each in shown.claims} == {"cannot be tested here"}
    assert [each.name for each in shown.figures if each.name != "ring-by-hand"] == []
    assert f"0 of {len(evidence.plans)} runs so far" in shown.conclusion[0]
    parts = [each for each in shown.sections if each.title in {"Tables", "Figures"}]
    told = [each.text for part in parts for each in part.items if isinstance(each, Listing)]
    assert all(text.startswith("cannot be shown here: ") for text in told)
    assert any("so far" in text for text in told)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_with_some_of_its_runs_what_is_there_is_shown(whole, share):
    name, evidence = whole
    part = some(evidence, share, seed=round(10 * share))
    shown = page(name, part)
    assert is_sound(shown, name)
    assert f"{len(part.runs)} of {len(evidence.plans)} runs so far" in shown.conclusion[0]


def test_with_all_of_them_nothing_is_said_of_going_on(whole):
    name, evidence = whole
    shown = page(name, evidence)
    assert is_sound(shown, name)
    assert not any("so far" in each for each in shown.conclusion)
    made = {each.name for each in shown.items if isinstance(each, (Table, Figure))}
    # A data-flow graph is kept by TensorBoard, which made-up runs have none of.
    study = load(name)
    assert {*study.tables, *study.figures} - made <= {"dataflow-graph"}


def test_a_page_tells_what_was_set_over_what_its_study_says(whole):
    name, evidence = whole
    shown = page_of(load(name), Grid.read(name), "quick", evidence, {"worker_steps": 3})
    assert shown.subtitle.endswith("; but worker_steps = 3")
    assert "but" not in page(name, evidence).subtitle.rpartition(";")[2]
