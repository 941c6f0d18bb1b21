"""Real processes that compute, allocate, share memory and write, and what a sampler says."""

import mmap
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paceline.measure.processes import SURVEY_EVERY, Sampler
from paceline.system.linux import own_pid

MIB = 1 << 20


class Child:
    """A forked process that does something, says so, and waits to be let go."""

    def __init__(self, action: Callable[[], object]) -> None:
        ready, self._say_ready = os.pipe()
        self._wait_go, self._go = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of forking beside threads; this child does nothing they would mind.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            self._live(action)
        os.close(self._say_ready)
        os.close(self._wait_go)
        said = os.read(ready, 1)
        os.close(ready)
        assert said == b"r", "the child failed before it was ready"

    def _live(self, action: Callable[[], object]) -> None:
        try:
            os.close(self._go)  # so that it also goes when its parent has gone
            kept = action()  # what it allocates lives as long as it does
            os.write(self._say_ready, b"r")
            os.read(self._wait_go, 1)
            del kept
        finally:
            os._exit(0)

    def end(self) -> None:
        if self._go >= 0:
            os.write(self._go, b"g")  # closing is not enough: later children hold a copy
            os.close(self._go)
            self._go = -1
            os.waitpid(self.pid, 0)


@contextmanager
def child(action: Callable[[], object]) -> Iterator[Child]:
    process = Child(action)
    try:
        yield process
    finally:
        process.end()


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def burn(cpu_s: float) -> None:
    end_s = time.process_time() + cpu_s
    while time.process_time() < end_s:
        sum(range(1000))


def write_and_sync(path: Path, num_bytes: int) -> None:
    with path.open("wb") as file:
        file.write(os.urandom(num_bytes))
        file.flush()
        os.fsync(file.fileno())


def in_a_thread(action: Callable[[], object]) -> None:
    threading.Thread(target=action, daemon=True).start()


def touched(num_bytes: int) -> mmap.mmap:
    """Memory of its own: what malloc gives may be pages that the tests before us left resident."""
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, num_bytes, mmap.PAGESIZE):
        memory[page] = 1
    return memory


def test_own_pid_is_the_one_proc_knows():
    assert Path(f"/proc/{own_pid()}/stat").read_text().split()[0] == str(own_pid())


def test_cpu_is_that_of_the_process_and_not_ours():
    with child(lambda: burn(0.3)) as process:
        burn(0.3)
        assert Sampler([process.pid]).sample().cpu_s == pytest.approx(0.3, abs=0.2)


def test_anonymous_memory_is_counted():
    with child(lambda: None) as small, child(lambda: touched(64 * MIB)) as large:
        grown = Sampler([large.pid]).sample().memory_bytes
        grown -= Sampler([small.pid]).sample().memory_bytes
    assert grown == pytest.approx(64 * MIB, abs=12 * MIB)


def test_a_segment_held_by_two_processes_is_counted_once():
    with child(lambda: None) as first, child(lambda: None) as second:
        alone = Sampler([first.pid, second.pid]).sample().memory_bytes
    descriptor = os.memfd_create("shared-by-two")
    try:
        os.ftruncate(descriptor, 64 * MIB)
        with mmap.mmap(descriptor, 64 * MIB) as memory:
            memory[: 32 * MIB] = bytes(32 * MIB)  # only what is touched takes memory
        with child(lambda: None) as first, child(lambda: None) as second:
            together = Sampler([first.pid, second.pid]).sample().memory_bytes
    finally:
        os.close(descriptor)
    assert together - alone == pytest.approx(32 * MIB, abs=12 * MIB)


def test_a_segment_that_appears_or_grows_later_is_seen():
    with pipe() as (told, tell), pipe() as (grown, say_grown):
        piece = bytes(MIB)  # small and made once: what a child allocates is counted as well

        def grow_when_told() -> None:
            descriptor = -1
            while os.read(told, 1):
                descriptor = os.memfd_create("late") if descriptor < 0 else descriptor
                for _ in range(16):
                    os.write(descriptor, piece)
                os.write(say_grown, b"g")

        with child(lambda: in_a_thread(grow_when_told)) as process:
            sampler = Sampler([process.pid])
            before = sampler.sample().memory_bytes
            for mib in (16, 32):
                os.write(tell, b"g")
                os.read(grown, 1)
                # An older kernel does not tell the number of descriptors: a survey finds it then.
                samples = [sampler.sample().memory_bytes - before for _ in range(SURVEY_EVERY)]
                assert samples[-1] == pytest.approx(mib * MIB, abs=6 * MIB)


@pytest.fixture
def folder_on_disk(tmp_path: Path) -> Iterator[Path]:
    """On a memory file system nothing reaches a disk; the source tree is hardly on one."""
    told = subprocess.run(("stat", "-fc%T", tmp_path), check=True, capture_output=True, text=True)
    if told.stdout.strip() != "tmpfs":
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


def test_bytes_written_to_disk_are_counted(folder_on_disk: Path):
    with child(lambda: write_and_sync(folder_on_disk / "file", 8 * MIB)) as process:
        assert Sampler([process.pid]).sample().disk_written_bytes >= 8 * MIB


def test_descendants_are_found_whichever_thread_forked_them():
    def fork_from_a_thread() -> None:
        thread = threading.Thread(target=lambda: Child(lambda: None))
        thread.start()
        thread.join()
        Child(lambda: None)

    with child(fork_from_a_thread) as process:
        assert Sampler([process.pid]).sample().num_processes == 3


def test_what_a_waited_for_child_used_is_kept_and_counted_once(folder_on_disk: Path):
    def work() -> None:
        burn(0.2)
        write_and_sync(folder_on_disk / "file", MIB)

    with pipe() as (told, tell), pipe() as (ended, say_ended):

        def have_work_done() -> None:
            worker = Child(work)

            def end_it_when_told() -> None:
                os.read(told, 1)
                worker.end()
                os.write(say_ended, b"e")

            in_a_thread(end_it_when_told)

        with child(have_work_done) as process:
            sampler = Sampler([process.pid])
            before = sampler.sample()
            os.write(tell, b"e")
            os.read(ended, 1)
            after = sampler.sample()
    assert (before.num_processes, after.num_processes) == (2, 1)
    assert before.cpu_s <= after.cpu_s == pytest.approx(before.cpu_s, abs=0.05)
    assert after.disk_written_bytes == before.disk_written_bytes >= MIB


def test_a_child_too_short_lived_to_be_seen_is_counted_by_its_parent():
    with child(lambda: Child(lambda: burn(0.2)).end()) as process:
        usage = Sampler([process.pid]).sample()
    assert usage.num_processes == 1
    assert usage.cpu_s == pytest.approx(0.2, abs=0.1)


def test_what_a_child_of_a_parent_that_ignores_it_used_is_kept():
    with pipe() as (reader, writer):

        def ignore_children() -> None:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            os.write(writer, b"%d" % Child(lambda: burn(0.2)).pid)

        with child(ignore_children) as process:
            grandchild = int(os.read(reader, 20))
            sampler = Sampler([process.pid])
            alive = sampler.sample()
            kill_and_wait(grandchild)
            ended = sampler.sample()
    assert (alive.num_processes, ended.num_processes) == (2, 1)
    assert ended.cpu_s == pytest.approx(0.2, abs=0.1)
    assert ended.cpu_s >= alive.cpu_s


def kill_and_wait(pid: int) -> None:
    """End a process that is not our child; its descriptor tells when it has ended."""
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([descriptor], [], [], 10)[0]
    os.close(descriptor)


def test_ended_roots_keep_what_they_used_and_are_no_error():
    with child(lambda: burn(0.2)) as process:
        sampler = Sampler([process.pid])
        alive = sampler.sample()
    ended = sampler.sample()
    assert ended.cpu_s == alive.cpu_s > 0
    assert (ended.memory_bytes, ended.num_processes) == (0, 0)
    assert sampler.sample() == ended


def test_each_tree_is_counted_by_itself_too(folder_on_disk: Path):
    def work() -> None:
        write_and_sync(folder_on_disk / "tree", 1 << 20)

    with child(work) as busy, child(lambda: None) as idle:
        usage = Sampler([busy.pid, idle.pid]).sample()
    by_root = usage.by_root
    assert set(by_root) == {busy.pid, idle.pid}
    assert by_root[busy.pid].disk_written_bytes >= 1 << 20
    assert by_root[idle.pid].disk_written_bytes < 1 << 20
    assert sum(each.cpu_s for each in by_root.values()) == pytest.approx(usage.cpu_s)


def test_a_pid_that_is_nobody_uses_nothing():
    with child(lambda: None) as process:
        pass
    assert Sampler([process.pid]).sample().num_processes == 0


def test_an_orphan_is_followed_after_its_parent_ended():
    with pipe() as (reader, writer):

        def leave_an_orphan() -> None:
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)  # it goes by itself, should the test fail before it is killed
                signal.pause()
            os.write(writer, b"%d" % pid)

        with child(leave_an_orphan) as process:
            orphan = int(os.read(reader, 20))
            sampler = Sampler([process.pid])
            assert sampler.sample().num_processes == 2
    assert sampler.sample().num_processes == 1
    kill_and_wait(orphan)
    assert sampler.sample().num_processes == 0


def test_own_pid_inside_a_pid_namespace_is_the_one_outside():
    code = "import os; from paceline.system.linux import own_pid; print(os.getpid(), own_pid())"
    as_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    unshare = ("unshare", *as_user, "--pid", "--fork")
    if (
        shutil.which("unshare") is None
        or subprocess.run((*unshare, "true"), check=False).returncode
    ):
        pytest.skip("this machine allows no PID namespace")
    done = subprocess.run(
        (*unshare, sys.executable, "-c", code), check=True, capture_output=True, text=True
    )
    inside, outside = map(int, done.stdout.split())
    assert inside == 1
    assert outside > 1


def test_a_sample_of_six_processes_is_cheap():
    processes = [Child(lambda: touched(MIB)) for _ in range(6)]
    try:
        sampler = Sampler([process.pid for process in processes])
        durations_s = []
        for _ in range(100):
            began_s = time.thread_time()  # processor time: others on the machine do not count
            assert sampler.sample().num_processes == 6
            durations_s.append(time.thread_time() - began_s)
    finally:
        for process in processes:
            process.end()
    assert statistics.median(durations_s) < 0.02
