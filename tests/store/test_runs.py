"""The run directory: whole files or none, sealed once, found again by any part of its name."""

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.errors import StoreError
from paceline.store.runs import RunDir, all_runs, create_run, find_run
from paceline.store.whole_files import write_atomically

FACTS = {"workload": "w"}


def create(out: Path, label: str = "w-single") -> RunDir:
    return create_run(out, label, spec="seed = 0\n", facts=FACTS, environment={"os": "x"})


class TestOthersFiles:
    """What somebody put into a folder is neither followed nor taken for ours."""

    def test_a_link_at_a_foreseeable_name_is_not_followed(self, run: RunDir, tmp_path: Path):
        precious = tmp_path / "precious"
        precious.write_text("mine")
        for name in (".result.json.tmp", ".spec.toml.tmp", "result.json"):
            (run.path / name).symlink_to(precious)
        write_atomically(run.result, "{}")
        assert precious.read_text() == "mine"
        assert not run.result.is_symlink()
        assert run.result.read_text() == "{}"

    def test_a_run_is_locked_before_anybody_can_see_it(self, tmp_path: Path, monkeypatch):
        seen = []
        replace = Path.replace

        def look(path: Path, target: Path) -> Path:
            moved = replace(path, target)
            if target.name == "driver.json":
                seen.append(RunDir(target.parent).driver_is_alive())
            return moved

        monkeypatch.setattr(Path, "replace", look)
        create(tmp_path)
        assert seen == [True]

    def test_rows_of_another_host_that_still_come_are_of_a_run_that_is_alive(self, run: RunDir):
        run.let_go()
        assert not run.driver_is_alive()
        told = json.loads(run.driver.read_text())
        run.driver.write_text(json.dumps(told | {"host": "another"}))
        (run.records / "worker0.jsonl").touch()
        assert run.driver_is_alive()
        for path in (run.driver, run.records / "worker0.jsonl"):
            os.utime(path, (0, 0))
        assert not run.driver_is_alive()

    def test_a_pipe_in_the_place_of_a_driver_is_not_waited_for(self, run: RunDir):
        run.let_go()
        run.driver.unlink()
        os.mkfifo(run.driver)
        assert not run.driver_is_alive()
        with pytest.raises(StoreError):
            run.hold()

    def test_a_folder_that_may_not_be_looked_into_hides_no_other(self, run: RunDir, monkeypatch):
        closed = run.path.parent / "20261116-000000-closed"
        closed.mkdir()
        is_file = Path.is_file

        def refuse(path: Path) -> bool:
            if path.parent == closed:
                raise PermissionError(13, "Permission denied", str(path))
            return is_file(path)

        monkeypatch.setattr(Path, "is_file", refuse)
        assert {each.name for each in all_runs(run.path.parent)} == {run.name, closed.name}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return create(tmp_path / "some" / "runs")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system, where that is allowed."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    done = False

    def mount(options: str) -> Path:
        nonlocal done
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here: {outcome.stderr.strip()}")
        done = True
        return folder

    yield mount
    if done:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_new_run_holds_what_was_known_before_it_started(run: RunDir):
    assert run.spec.read_text() == "seed = 0\n"
    assert run.read_environment() == {"os": "x"}
    assert run.read_facts() == FACTS
    assert run.records.is_dir()
    assert run.logs.is_dir()
    assert not run.is_sealed
    assert not [name for name in names_in(run.path) if name.endswith(".tmp")]


def test_two_runs_of_one_moment_are_two(tmp_path: Path):
    assert create(tmp_path).name != create(tmp_path).name


def test_the_seal_is_the_result_and_takes_the_scaffolding_away(run: RunDir):
    run.seat_records("worker0").write_text("{}\n")
    run.seal({"status": "finished"})
    assert run.is_sealed
    assert run.read_result() == {"status": "finished"}
    assert names_in(run.path) == ["environment.json", "logs", "result.json", "spec.toml"]


def test_a_sealed_run_is_never_changed(run: RunDir):
    run.seal({"status": "finished"})
    with pytest.raises(StoreError, match="sealed already"):
        run.seal({"status": "failed"})
    assert run.read_result() == {"status": "finished"}


def test_a_seal_is_valid_json_or_none(run: RunDir):
    with pytest.raises(ValueError, match="JSON"):
        run.seal({"loss": float("nan")})
    assert not run.is_sealed


def test_a_file_in_the_way_is_told_and_left_alone(tmp_path: Path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(StoreError, match=r"cannot write a run to .*runs: ") as caught:
        create(tmp_path / "runs")
    assert caught.value.exit_code == 2
    assert (tmp_path / "runs").read_text() == "a file"


def test_an_unwritable_folder_is_told(mounted):
    folder = mounted("ro")
    with pytest.raises(StoreError, match=f"cannot write a run to {folder}: Read-only"):
        create(folder)


def test_a_full_disk_is_told_and_nothing_is_left_on_it(mounted):
    folder = mounted("size=128k")
    with pytest.raises(StoreError, match="No space left on device"):
        create(folder)
    assert names_in(folder) == []


def test_a_run_that_filled_the_disk_can_still_be_sealed(mounted):
    folder = mounted("size=1m")
    run = create(folder)
    with pytest.raises(OSError, match="No space left on device"):
        (run.logs / "worker0.log").write_bytes(b"x" * 2_000_000)
    run.seal({"status": "failed", "reason": "No space left on device"})
    assert run.read_result()["status"] == "failed"


def test_a_run_is_found_by_part_of_its_name_by_path_and_as_last(tmp_path: Path):
    first, second = create(tmp_path, "a-lenet"), create(tmp_path, "b-logistic")
    assert find_run("lenet", tmp_path).path == first.path
    assert find_run(second.name, tmp_path).path == second.path
    assert find_run(str(first.path), tmp_path / "elsewhere").path == first.path
    assert find_run("last", tmp_path).path == second.path
    assert [run.name for run in all_runs(tmp_path)] == [first.name, second.name]


def test_a_part_that_several_have_names_them(tmp_path: Path):
    first, second = create(tmp_path, "lenet-single"), create(tmp_path, "lenet-solo")
    with pytest.raises(StoreError, match="2 runs") as caught:
        find_run("lenet", tmp_path)
    assert first.name in str(caught.value)
    assert second.name in str(caught.value)


@pytest.mark.parametrize("wanted", ["nothing", "last"])
def test_a_run_that_is_not_there_is_told(tmp_path: Path, wanted: str):
    with pytest.raises(StoreError, match=rf"run = '{wanted}': no such run .*paceline ls"):
        find_run(wanted, tmp_path / "runs")


def test_folders_that_are_no_runs_are_passed_over(tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "a file").write_text("")
    assert list(all_runs(tmp_path)) == []


def test_the_driver_is_alive_while_its_process_is(tmp_path: Path, run: RunDir):
    assert run.driver_is_alive()
    code = (
        "import sys; from pathlib import Path; from paceline.store.runs import create_run\n"
        "made = create_run(Path(sys.argv[1]), 'w', spec='', facts={}, environment={})\n"
        "print(made.path, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        theirs = RunDir(Path(driver.stdout.readline().strip()))
        assert theirs.driver_is_alive()
        driver.kill()
        # Ended, but not waited for: a zombie, as in a container whose init waits for nobody.
        os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)
        assert not theirs.driver_is_alive()
        driver.wait()
        assert not theirs.driver_is_alive()


def test_only_one_process_writes_a_run(run: RunDir):
    with pytest.raises(StoreError, match="being written by another process"):
        RunDir(run.path).hold()
    run.let_go()
    assert not run.driver_is_alive()
    RunDir(run.path).hold()


def test_a_sealed_run_has_no_driver(run: RunDir):
    run.seal({})
    assert not run.driver_is_alive()


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_result_is_told_by_its_path(run: RunDir, text: str):
    run.result.write_text(text)
    with pytest.raises(StoreError, match=str(run.result)):
        run.read_result()


def test_the_end_of_a_log_is_its_last_lines(run: RunDir):
    (run.logs / "worker0.log").write_bytes(b"\xff\n" + b"".join(b"%d\n" % i for i in range(99)))
    assert run.log_tail("worker0", 2) == "97\n98"
    assert run.log_tail("worker7") == ""


@pytest.mark.parametrize("name", ["../secret", "worker0/../../secret", "", "the run"])
def test_what_is_no_seat_has_no_log(run: RunDir, name: str):
    (run.path / "secret.log").write_text("not yours")
    for ask in (run.seat_log, run.log_tail, run.log_bytes):
        with pytest.raises(ValueError, match="is no seat"):
            ask(name)


def test_of_a_huge_log_only_the_end_is_read(run: RunDir):
    with (run.logs / "worker0.log").open("wb") as log:
        log.truncate(600_000_000)  # nothing of it is on the disk
        log.seek(0, os.SEEK_END)
        log.write(b"\none\ntwo\n")
    tracemalloc.start()
    try:
        assert run.log_tail("worker0", 2) == "one\ntwo"
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
