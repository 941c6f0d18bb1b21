"""Runs that are kept, found as a user names them."""

import pytest

from paceline.errors import StoreError
from paceline.store.stored import runs_of
from tests.made_runs import made


def test_a_folder_is_all_its_runs_and_none_comes_twice(tmp_path):
    one, two = made(tmp_path, "ring"), made(tmp_path, "single")
    found, problems = runs_of([str(tmp_path), str(one.folder.path), "single"], tmp_path)
    assert [run.name for run in found] == [one.name, two.name]
    assert problems == []


def test_a_run_that_cannot_be_read_is_told_and_the_others_are_there(tmp_path):
    made(tmp_path, "ring")
    broken = made(tmp_path, "single")
    broken.folder.result.write_text("{")
    found, (problem,) = runs_of([str(tmp_path)], tmp_path)
    assert len(found) == 1
    assert broken.name in problem


def test_rows_that_cannot_be_read_are_named(tmp_path):
    run = made(tmp_path)
    run.folder.steps.write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=r"steps\.parquet cannot be read"):
        _ = run.steps


def test_an_empty_folder_is_a_mistake(tmp_path):
    with pytest.raises(StoreError, match="a folder without runs"):
        runs_of([str(tmp_path)], tmp_path)


def test_labels_say_what_kind_of_figures_these_are(tmp_path):
    assert made(tmp_path).labels == ("real compute",)
    replayed = made(
        tmp_path, compute="replayed", device="replay:k80", dilation=20.0, host_limited=True
    )
    assert replayed.labels == ("replayed compute (k80), dilated 20x", "limited by this host")
