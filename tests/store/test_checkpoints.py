"""Checkpoints: whole or not there, and what is damaged is found before anything is loaded."""

import os
from pathlib import Path

import pytest
import torch

from paceline.errors import StoreError
from paceline.store import checkpoints
from paceline.store.checkpoints import (
    FileSum,
    Manifest,
    complete,
    folder_of,
    folders,
    lay_out,
    newest,
    opened,
    seat_state,
)
from paceline.store.runs import RunDir
from paceline.store.states import read_state, save_state


def made(run: RunDir, progress: int, *, keep: int = 3) -> Path:
    """Make a checkpoint of two seats."""
    run.arriving.mkdir(parents=True)
    sums = {}
    for seat in ("worker0", "worker1"):
        state = {"steps": progress, "values": torch.full((1000,), float(progress))}
        written = save_state(seat_state(run.arriving, seat), state)
        sums[seat] = FileSum(num_bytes=written.num_bytes, digest=written.digest)
    complete(run, manifest(progress, sums), keep)
    return folder_of(run, progress)


def manifest(progress: int, sums: dict[str, FileSum]) -> Manifest:
    return Manifest(
        progress=progress,
        time_s=1.5,
        num_workers=2,
        first="worker0",
        seats=sums,
        evaluations=[{"time_s": 1.0, "progress": 5, "loss": float("nan")}],
        next_evaluation=10,
    )


def test_the_newest_is_given_with_all_that_was_written(tmp_path):
    run = RunDir(tmp_path)
    made(run, 7)
    made(run, 12)
    checkpoint, problems = newest(run)
    assert problems == []
    assert checkpoint.progress == 12
    assert checkpoint.manifest.next_evaluation == 10
    assert checkpoint.manifest.evaluations[0]["progress"] == 5
    assert read_state(checkpoint.state("worker1"))["steps"] == 12
    assert not run.arriving.exists()


def test_only_the_last_are_kept(tmp_path):
    run = RunDir(tmp_path)
    for progress in (5, 10, 9999999999):
        made(run, progress, keep=2)
    assert [each.name for each in folders(run)] == ["step-9999999999", "step-000000010"]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = [cut, flip, empty, Path.unlink]


def test_one_whose_removal_was_cut_short_is_no_checkpoint(tmp_path, monkeypatch):
    run = RunDir(tmp_path)
    made(run, 7)

    def be_killed(folder: Path, **_: object) -> None:
        for file in Path(folder).glob("*.json"):
            file.unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.shutil, "rmtree", be_killed)
    with pytest.raises(KeyboardInterrupt):
        made(run, 12, keep=1)
    monkeypatch.undo()
    assert [opened(each).progress for each in folders(run)] == [12]
    made(run, 15, keep=1)
    assert [each.name for each in run.checkpoints.iterdir()] == [folder_of(run, 15).name]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", ["worker0.safetensors", "worker1.safetensors", "checkpoint.json"])
def test_one_that_is_torn_or_damaged_is_found_and_the_one_before_is_used(damage, name, tmp_path):
    run = RunDir(tmp_path)
    made(run, 7)
    newer = made(run, 12)
    damage(newer / name)
    checkpoint, problems = newest(run)
    assert checkpoint.progress == 7
    assert len(problems) == 1
    assert "step-000000012: not a whole checkpoint" in problems[0]


def test_where_none_is_whole_each_is_named(tmp_path):
    run = RunDir(tmp_path)
    with pytest.raises(StoreError, match=r"without --checkpoint-every.*paceline run .*spec\.toml"):
        newest(run)
    flip(made(run, 7) / "worker0.safetensors")
    with pytest.raises(StoreError, match=r"worker0\.safetensors is damaged"):
        newest(run)


def test_what_never_arrived_whole_is_no_checkpoint(tmp_path):
    run = RunDir(tmp_path)
    run.arriving.mkdir(parents=True)
    save_state(seat_state(run.arriving, "worker0"), {"steps": 3})
    assert folders(run) == []
    sums = {each: FileSum(num_bytes=1, digest="") for each in ("worker0", "worker1")}
    with pytest.raises(StoreError, match="the state of worker1 is not there"):
        complete(run, manifest(3, sums), 2)
    assert folders(run) == []


def test_another_run_begins_with_the_same_files(tmp_path):
    parent, child = RunDir(tmp_path / "parent"), RunDir(tmp_path / "child")
    folder = made(parent, 12)
    lay_out(opened(folder), child)
    (other,) = folders(child)
    assert opened(other).manifest == opened(folder).manifest
    assert (other / "worker0.safetensors").samefile(folder / "worker0.safetensors")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    run = RunDir(tmp_path)
    made(run, 12)
    (run.checkpoints / "step-12").mkdir()
    (run.checkpoints / "notes").mkdir()
    assert len(folders(run)) == 1


def test_every_number_of_the_list_is_checked(tmp_path):
    run = RunDir(tmp_path)
    file = made(run, 12) / "checkpoint.json"
    file.write_text(file.read_text().replace('"time_s": 1.5', '"time_s": 1.6'))
    with pytest.raises(StoreError, match=r"checkpoint\.json is damaged"):
        newest(run)
