"""The page of a study that is kept, from what of it is finished."""

from __future__ import annotations

from pathlib import Path

from paceline import studies
from paceline.errors import StoreError
from paceline.exhibits.values import Page
from paceline.parts import code_in
from paceline.settings import Fields
from paceline.studies.base import page_of
from paceline.studies.evidence import Evidence, with_peers
from paceline.studies.executor import gathered
from paceline.studies.folder import StudyDir
from paceline.studies.grid import Grid, Variant


def page_again(path: Path, *, run_code: bool = False) -> Page:
    """Make the page of a study's folder, whether all of it is finished or not.

    Classes of somebody's own that its note names are imported only if their code may be run.
    """
    folder = StudyDir(path)
    name, variant, fields = folder.noted()
    studies.load(name)  # says so where it is none of ours
    plans = Grid.read(name).plan(variant, fields)
    named = next((code for each in plans for code in code_in(each.table())), None)
    if named and not run_code:
        reason = f"its runs use {named}; --run-code imports that code, which is needed to find them"
        raise StoreError(f"{path}: {reason}")
    return page_with(name, variant, fields, gathered(plans, folder), path)


def page_with(
    name: str, variant: Variant, fields: Fields, evidence: Evidence, folder: Path
) -> Page:
    """Make the page of a study; what peers measured lies beside its folder."""
    known = with_peers(evidence, folder.parent)
    return page_of(studies.load(name), Grid.read(name), variant, known, fields)
