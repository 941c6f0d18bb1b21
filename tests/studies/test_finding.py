"""Studies are found as they are named: by folder, by name, by name and variant."""

from pathlib import Path

import pytest

from paceline.errors import StoreError
from paceline.studies.finding import find, place, with_runs_of_studies
from paceline.studies.folder import StudyDir

NAME = "mnist-logistic"


@pytest.fixture
def out(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def begun(out: Path, variant: str) -> Path:
    folder = StudyDir(place(out, NAME, variant))
    folder.note(NAME, variant, {})
    return folder.path


@pytest.mark.parametrize("wanted", [NAME, f"{NAME}-full", f"study-{NAME}-full"])
def test_it_is_found_by_its_name(out, wanted):
    folder = begun(out, "full")
    assert find(wanted, out) == folder


def test_it_is_found_by_its_folder(out):
    folder = begun(out, "quick")
    assert find(str(folder), Path("elsewhere")) == folder


def test_of_two_variants_one_must_be_named(out):
    begun(out, "quick")
    full = begun(out, "full")
    with pytest.raises(StoreError, match=f"study-{NAME}-quick and study-{NAME}-full"):
        find(NAME, out)
    assert find(f"{NAME}-full", out) == full


def test_one_that_was_not_begun_is_told(out):
    begun(out, "quick")
    with pytest.raises(StoreError, match="not in runs"):
        find(f"{NAME}-full", out)


@pytest.mark.parametrize("wanted", ["last", "runs", "3fa9c1"])
def test_what_is_no_study_is_left_to_others(out, wanted):
    assert find(wanted, out) is None


def test_a_folder_of_that_name_is_a_folder(out):
    begun(out, "quick")
    Path(NAME).mkdir()
    assert find(NAME, out) is None


def test_its_runs_stand_in_its_place(out):
    folder = begun(out, "quick")
    with pytest.raises(StoreError, match="has no runs yet"):
        with_runs_of_studies([NAME], out)
    (folder / "runs").mkdir()
    assert with_runs_of_studies(["last", NAME], out) == ["last", str(folder / "runs")]
