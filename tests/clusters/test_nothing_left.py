"""However a run ends, every process of it ends and nothing of it stays."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from paceline.store.runs import all_runs
from paceline.testing.leftovers import Witness, locks_below, unfinished_files
from tests.commands import QUICK, paceline, start

PATIENCE_S = 90.0

pytestmark = pytest.mark.alone


# Without this capability the keeper cannot be init of a PID namespace, as for an ordinary user.
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")


@pytest.fixture(params=["with a PID namespace", "without"])
def witness(request):
    witness = Witness()
    if request.param == "without":
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            pytest.skip("setpriv (Debian package util-linux) is needed to give up a capability")
        witness.prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    elif os.geteuid() != 0:
        pytest.skip("only root may make a PID namespace")
    return witness


def start_solo(witness, cwd, seconds=300):
    return start(
        "run", "logistic-mnist", *QUICK, "--strategy", "solo", "--workers", 3, "--seconds", seconds,
        cwd=cwd, env=witness.environment, prefix=witness.prefix,
    )  # fmt: skip


def wait_until(condition, patience_s=PATIENCE_S):
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, "it never came"
        time.sleep(0.01)


def is_training(cwd: Path) -> bool:
    return any(path.stat().st_size for path in cwd.glob("runs/*/records/worker*.jsonl"))


def assert_nothing_is_left(witness, cwd):
    wait_until(lambda: not witness.processes())
    assert witness.new_memfds() == []
    assert locks_below(cwd) == []
    assert unfinished_files(cwd) == []


@pytest.mark.parametrize("moment", ["as it starts", "when seats are forked", "in training"])
def test_kill_9_of_the_driver(moment, witness, tmp_path):
    driver = start_solo(witness, tmp_path)
    moments = {
        "as it starts": lambda: any(tmp_path.glob("runs/*/.ballast")),
        "when seats are forked": lambda: len(witness.processes()) >= 6,
        "in training": lambda: is_training(tmp_path),
    }
    wait_until(moments[moment])
    driver.kill()
    driver.communicate()
    assert_nothing_is_left(witness, tmp_path)
    listed = paceline("ls", cwd=tmp_path).stdout
    assert "interrupted" in listed
    assert all(run.is_sealed for run in all_runs(tmp_path / "runs"))


def test_kill_9_of_the_keeper_is_a_failed_run(witness, tmp_path):
    driver = start_solo(witness, tmp_path)
    wait_until(lambda: is_training(tmp_path))
    (zygote,) = children_of(driver.pid, witness)
    (keeper,) = children_of(zygote, witness)
    os.kill(keeper, signal.SIGKILL)
    _, errors = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1
    assert "its keeper process ended" in errors
    assert_nothing_is_left(witness, tmp_path)


def test_kill_9_of_the_zygote_harms_no_run(witness, tmp_path):
    driver = start_solo(witness, tmp_path, seconds=3)
    wait_until(lambda: is_training(tmp_path))
    (zygote,) = children_of(driver.pid, witness)
    os.kill(zygote, signal.SIGKILL)
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0
    assert_nothing_is_left(witness, tmp_path)


def test_ctrl_c_twice_ends_at_once(witness, tmp_path):
    driver = start_solo(witness, tmp_path)
    wait_until(lambda: is_training(tmp_path))
    driver.send_signal(signal.SIGINT)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 130
    assert_nothing_is_left(witness, tmp_path)


def test_strays_of_a_seat_end_too(witness, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import subprocess, torch\n"
        "from paceline import Tensors, Workload\n"
        "class Mine(Workload):\n"
        "    def model(self): return torch.nn.Linear(2, 2)\n"
        "    def data(self, split, dtype):\n"
        "        subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "        return Tensors(torch.randn(100, 2), torch.zeros(100).long())\n"
        "    def num_rows(self): return 100\n"
    )
    done = paceline("run", "mine.py:Mine", "--batch", 10, cwd=tmp_path, env=witness.environment)
    assert done.returncode == 0
    assert_nothing_is_left(witness, tmp_path)


def children_of(pid: int, witness: Witness) -> list[int]:
    return [each for each in witness.processes() if parent_of(each) == pid]


def parent_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
