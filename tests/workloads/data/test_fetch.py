"""Getting a data set: from folders, and what is left behind when it does not work."""

from __future__ import annotations

import dataclasses
import gzip
import os
import signal
import subprocess
import sys
import threading

import pytest

from paceline.errors import DataError, SpecError
from paceline.workloads.data import catalogue, fetch
from paceline.workloads.data.sources.folder import Folder


def _from(tiny, folder):
    return [Folder(tiny.dataset, folder, f"--from {folder}")]


@pytest.mark.parametrize("below", ["", "tiny", "MNIST/raw", "package/data"])
@pytest.mark.parametrize("zipped", [False, True])
def test_files_come_from_a_folder(tmp_path, tiny, below, zipped):
    tiny.put(tmp_path / "mine" / below, zipped=zipped)
    folder = fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tmp_path / "mine"))
    assert folder == tmp_path / "cache" / "tiny"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == tiny.raw


def test_content_decides_between_copies_of_one_name(tmp_path, tiny):
    tiny.put(tmp_path / "mine" / "b")
    wrong = tiny.put(tmp_path / "mine" / "a") / "labels-idx1"
    wrong.write_bytes(wrong.read_bytes()[:-1] + b"\xff")
    folder = fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tmp_path / "mine"))
    assert (folder / "labels-idx1").read_bytes() == tiny.raw["labels-idx1"]


def test_a_second_get_says_so_and_does_nothing(tmp_path, tiny, told, progress):
    folder = tiny.put(tmp_path / "tiny")
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())}
    assert fetch.obtain(tiny.dataset, tmp_path, [], progress) == folder
    assert told == [f"tiny is already complete in {folder}"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_corrupt_file_is_replaced_and_a_good_one_left_alone(tmp_path, tiny):
    folder = tiny.put(tmp_path / "cache" / "tiny")
    (folder / "labels-idx1").write_bytes(b"damaged")
    kept = (folder / "images-idx3").stat()
    fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tiny.put(tmp_path / "mine")))
    assert (folder / "labels-idx1").read_bytes() == tiny.raw["labels-idx1"]
    assert (folder / "images-idx3").stat().st_ino == kept.st_ino


def test_two_sources_may_each_bring_a_part(tmp_path, tiny):
    (tiny.put(tmp_path / "one") / "labels-idx1").unlink()
    (tiny.put(tmp_path / "two") / "images-idx3").unlink()
    sources = _from(tiny, tmp_path / "one") + _from(tiny, tmp_path / "two")
    folder = fetch.obtain(tiny.dataset, tmp_path / "cache", sources)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == tiny.raw


DAMAGES = {
    "cut gzip": (lambda raw: gzip.compress(raw)[:-9], "gzip data is corrupt or cut short"),
    "not gzip": (lambda raw: raw, "gzip data is corrupt or cut short"),
    "too large": (lambda raw: gzip.compress(raw + b"x"), "larger than the"),
    "other content": (lambda raw: gzip.compress(raw[::-1]), "content differs: md5 is"),
    "too small": (lambda raw: gzip.compress(raw[1:]), r"has \S+ bytes, should have"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_refused_and_leaves_nothing(tmp_path, tiny, tree, damage):
    spoil, reason = DAMAGES[damage]
    mine = tiny.put(tmp_path / "mine", zipped=True)
    for name, raw in tiny.raw.items():
        (mine / f"{name}.gz").write_bytes(spoil(raw))
    with pytest.raises(DataError, match=reason) as caught:
        fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, mine))
    assert "images-idx3" in str(caught.value)
    assert tree(tmp_path / "cache") == []


def test_all_failures_are_listed_with_what_to_do(tmp_path, tiny, told, progress):
    (tmp_path / "empty").mkdir()
    hint = " (Some package fills it)"
    sources = [
        *_from(tiny, tmp_path / "empty"),
        Folder(tiny.dataset, tmp_path / "no", "system folder", hint),
    ]
    with pytest.raises(DataError) as caught:
        fetch.obtain(tiny.dataset, tmp_path / "cache", sources, progress)
    lines = str(caught.value).splitlines()
    assert lines[0] == "tiny: could not get 2 of 2 files: images-idx3, labels-idx1"
    assert lines[1].endswith("no images-idx3, raw or .gz; no labels-idx1, raw or .gz")
    assert lines[2].endswith(f"there is no folder {tmp_path / 'no'} (Some package fills it)")
    assert "paceline data get tiny --from DIR" in lines[3]
    assert all(line.removeprefix("  tried ") in told for line in lines[1:3])


def test_verify_tells_ok_missing_and_corrupt_with_both_checksums(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes(60_008))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"short")
    states = {state.file.name: state for state in fetch.verify("mnist", tmp_path)}
    wrong, short = states["train-labels-idx1-ubyte"], states["t10k-labels-idx1-ubyte"]
    assert (wrong.state, wrong.expected_md5) == ("corrupt", "a25bea736e30d166cdddb491f175f624")
    assert wrong.got_md5 in wrong.reason
    assert wrong.expected_md5 in wrong.reason
    assert (short.state, short.reason) == ("corrupt", "has 5 bytes, should have 10,008")
    assert states["train-images-idx3-ubyte"].state == "missing"


def test_an_unknown_name_lists_the_choices(tmp_path):
    for call in (fetch.get, fetch.verify):
        with pytest.raises(SpecError, match=r"data set = 'minst'.*mnist, fashion-mnist, cifar10"):
            call("minst", tmp_path)


def test_from_a_folder_that_is_not_there_is_an_error_before_anything_else(tmp_path):
    with pytest.raises(DataError, match=r"--from .*nowhere: there is no such folder"):
        fetch.get("mnist", tmp_path / "cache", tmp_path / "nowhere")
    assert not (tmp_path / "cache").exists()


def test_a_cache_folder_that_cannot_be_made_is_a_data_error(tmp_path, tiny):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be created"):
        fetch.obtain(tiny.dataset, tmp_path / "file" / "cache", _from(tiny, tmp_path))


def test_a_folder_where_a_file_should_be_is_a_data_error(tmp_path, tiny):
    (tmp_path / "cache" / "tiny" / "labels-idx1").mkdir(parents=True)
    with pytest.raises(DataError, match="labels-idx1: cannot be replaced"):
        fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tiny.put(tmp_path / "mine")))


class Interrupting:
    """A source that has written half a file when somebody presses Ctrl-C."""

    title = "interrupting"

    def bring(self, wanted, staging, progress):
        (staging / wanted[0].name).write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)  # the signal ends this wait at once


def test_ctrl_c_leaves_nothing_half_written(tmp_path, tiny, tree):
    with pytest.raises(KeyboardInterrupt):
        fetch.obtain(tiny.dataset, tmp_path / "cache", [Interrupting()])
    assert tree(tmp_path / "cache") == []


def test_what_a_killed_process_left_is_cleared_away(tmp_path, tiny):
    left = tmp_path / "cache" / "tiny" / ".getting"
    left.mkdir(parents=True)
    (left / "images-idx3").write_bytes(b"half")
    folder = fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tiny.put(tmp_path / "m")))
    assert sorted(path.name for path in folder.iterdir()) == sorted(tiny.raw)


HOLDER = """
import pathlib, sys
from paceline.workloads.data.staging import held
with held(pathlib.Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_waits_for_the_first(tmp_path, tiny):
    tiny.put(tmp_path / "mine")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "cache"], **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        told = []

        def progress(message, _done, _total):
            told.append(message)
            if message.startswith("waiting"):
                holder.stdin.close()  # now the holder lets go

        fetch.obtain(tiny.dataset, tmp_path / "cache", _from(tiny, tmp_path / "mine"), progress)
    assert told[0].startswith("waiting for another process")


def test_every_url_of_the_catalogue_is_https_and_every_checksum_is_one():
    for dataset in catalogue.DATA_SETS:
        assert all(url.startswith("https://") for url in dataset.urls)
        sums = [sum_ for file in dataset.files for sum_ in (file.md5, file.gz_md5) if sum_]
        assert all(len(bytes.fromhex(sum_)) == 16 for sum_ in sums)
        assert dataset.archive or all(file.gz_md5 for file in dataset.files)


def test_the_cache_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert catalogue.default_data_dir() == tmp_path / "paceline"
    monkeypatch.setenv("HOME", "/somebody")
    for not_absolute in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert str(catalogue.default_data_dir()) == "/somebody/.cache/paceline"


def test_system_folders_are_tried_after_the_users(tmp_path):
    titles = [
        source.title for source in fetch.sources_of(catalogue.FASHION_MNIST, tmp_path, tmp_path)
    ]
    assert titles[:2] == [f"--from {tmp_path}", "system folder /usr/share/datasets/fashion-mnist"]
    assert all(title.startswith("https://") for title in titles[2:])


@pytest.mark.skipif(
    not catalogue.FASHION_MNIST.system_dirs[0].is_dir(),
    reason="Debian's dataset-fashion-mnist is not installed",
)
def test_fashion_mnist_comes_from_the_debian_package(tmp_path):
    only_system = dataclasses.replace(catalogue.FASHION_MNIST, urls=())
    sources = fetch.sources_of(only_system, tmp_path)
    fetch.obtain(only_system, tmp_path, sources)
    assert {state.state for state in fetch.verify("fashion-mnist", tmp_path)} == {"ok"}
