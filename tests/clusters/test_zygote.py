"""One import of torch for many runs, and nothing that is left of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.clusters.base import Job
from paceline.clusters.local import Local
from paceline.clusters.zygote import Zygote
from paceline.comm.keeper_words import FROM_KEEPERS, KeeperReady
from paceline.comm.line import Line, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Seat
from paceline.comm.words import Answered, Here
from paceline.engine import driver
from paceline.errors import SeatFailed
from paceline.parts import Record
from paceline.spec import RunSpec
from paceline.testing.leftovers import Witness
from paceline.testing.workloads import Moons, Poisoned
from tests.clusters.test_nothing_left import children_of, parent_of, wait_until
from tests.commands import QUICK, start

PATIENCE_S = 60
QUIET = Record(tensorboard=False, monitor=False, model=False)


@pytest.fixture
def zygote():
    with Zygote() as made:
        yield made


def keeper_of(zygote: Zygote) -> tuple[Line, int]:
    """Have a keeper forked; returns the driver's end of its line, and its pid."""
    mine, other = PairLine.pair()
    with other:
        zygote.fork(other, ["json"])
    line = PairLine(mine, hears=FROM_KEEPERS)
    word = line.receive(PATIENCE_S)
    assert isinstance(word, KeeperReady)
    return line, word.pid


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def end(line: Line) -> None:
    """Be a driver that goes; returns when the keeper has gone too."""
    line.finish()
    with pytest.raises(LineClosed):
        line.receive(PATIENCE_S)
    line.close()


def test_keepers_are_forked_by_one_process(zygote):
    first, first_pid = keeper_of(zygote)
    second, second_pid = keeper_of(zygote)
    assert first_pid != second_pid
    assert parent_of(first_pid) == parent_of(second_pid) != os.getpid()
    end(first)
    end(second)


def test_a_keeper_goes_with_its_driver_without_a_word(zygote, capfd):
    line, _ = keeper_of(zygote)
    end(line)
    zygote.close()
    assert capfd.readouterr().err == ""


def test_a_keeper_outlives_the_process_it_came_from(zygote):
    line, pid = keeper_of(zygote)
    zygote.close()
    assert is_there(pid)
    end(line)


def test_a_process_that_died_is_started_again(zygote):
    line, pid = keeper_of(zygote)
    before = parent_of(pid)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: is_zombie(before))  # the driver has not asked for it yet
    end(line)
    line, pid = keeper_of(zygote)
    assert parent_of(pid) != before
    end(line)


def say_surroundings(berth) -> int:
    """An entry: what a seat finds around it."""
    berth.line.send(Answered([os.environ.get("PACELINE_TEST_WORD"), str(Path.cwd())]))
    return 0


def test_seats_find_the_surroundings_of_now(zygote, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_TEST_WORD", "old")
    assert surroundings_of_a_seat(zygote, tmp_path) == ("old", str(Path.cwd()))
    monkeypatch.setenv("PACELINE_TEST_WORD", "new")
    monkeypatch.chdir(tmp_path)
    assert surroundings_of_a_seat(zygote, tmp_path) == ("new", str(tmp_path))
    monkeypatch.delenv("PACELINE_TEST_WORD")
    assert surroundings_of_a_seat(zygote, tmp_path) == (None, str(tmp_path))


def surroundings_of_a_seat(zygote: Zygote, run_dir: Path) -> tuple[str | None, str]:
    job = job_of(run_dir, entry=f"{__name__}:say_surroundings", zygote=zygote)
    crew = Local().start(job)
    try:
        assert isinstance(crew.lines["worker0"].receive(PATIENCE_S), Here)
        word, folder = crew.lines["worker0"].receive(PATIENCE_S).value
        return word, folder
    finally:
        crew.end()


def job_of(run_dir: Path, **fields) -> Job:
    (run_dir / "logs").mkdir(exist_ok=True)
    return Job(
        run_dir=run_dir,
        run_key=bytes(16),
        seats=[Seat("worker", 0, "node0")],
        threads=1,
        **fields,
    )


def test_a_driver_that_ends_before_it_says_anything_leaves_no_process():
    mine, other = PairLine.pair()
    command = [sys.executable, "-m", "paceline.clusters.zygote_process", str(other.fileno())]
    process = subprocess.Popen(
        command, pass_fds=(other.fileno(),), stderr=subprocess.PIPE, text=True
    )
    other.close()
    mine.close()
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "logistic-mnist", "--strategies", "single,ps-async", "--repeat", 1),
        ("study", "ps-vs-ring", "--only", "stale-rate"),
    ],
    ids=["compare", "study"],
)
def test_all_runs_of_a_command_come_from_one_process(command, tmp_path):
    witness = Witness()
    driver = start(*command, *QUICK, cwd=tmp_path, env=witness.environment)
    seen: set[int] = set()
    while driver.poll() is None:
        seen |= {pid for pid in children_of(driver.pid, witness) if is_zygote(pid)}
        time.sleep(0.05)
    driver.communicate()
    assert driver.returncode == 0
    assert len([*tmp_path.glob("runs/**/result.json")]) == 2
    assert len(seen) == 1


def is_zygote(pid: int) -> bool:
    with contextlib.suppress(OSError):  # it ended meanwhile
        return b"zygote_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_runs_that_share_one_are_as_they_are_alone(tmp_path):
    spec = RunSpec(workload=Moons(), num_workers=1, batch=8, steps=20, record=QUIET)
    alone = driver.run(spec, out=tmp_path)
    with Zygote() as zygote:
        results = [driver.run(spec, out=tmp_path, zygote=zygote) for _ in range(2)]
    assert {each.final_loss for each in results} == {alone.final_loss}


def test_a_run_that_failed_does_not_harm_the_next(tmp_path):
    good = RunSpec(workload=Moons(), batch=8, steps=20, record=QUIET)
    bad = RunSpec(workload=Poisoned(way="die"), batch=8, epochs=1, record=QUIET)
    with Zygote() as zygote:
        with pytest.raises(SeatFailed, match="killed by signal 9"):
            driver.run(bad, out=tmp_path, zygote=zygote)
        assert driver.run(good, out=tmp_path, zygote=zygote).status == "finished"


def test_a_crew_that_ends_while_torch_is_imported_is_gone_at_once(tmp_path):
    before = children()
    crew = Local().start(job_of(tmp_path, entry="paceline.engine.worker:main"))
    (pid,) = children() - before
    crew.end()
    assert not is_there(pid)
    assert not [*(tmp_path / "logs").iterdir()]


def children() -> set[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(each) for each in text.split()}
