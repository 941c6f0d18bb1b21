"""Real processes that compute, allocate, share memory and write, and what a sampler says."""

import mmap
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paceline.measure.processes import SURVEY_EVERY, Sampler, own_pid

MIB = 1 << 20


class Child:
    """A forked process that does something, says so, and waits to be let go."""

    def __init__(self, action: Callable[[], object]) -> None:
        ready, self._say_ready = os.pipe()
        self._wait_go, self._go = os.pipe()
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
            os.close(self._go)
            kept = action()  # what it allocates lives as long as it does
            os.write(self._say_ready, b"r")
            os.read(self._wait_go, 1)
            del kept
        finally:
            os._exit(0)

    def end(self) -> None:
        if self._go >= 0:
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


def burn(cpu_s: float) -> None:
    end_s = time.process_time() + cpu_s
    while time.process_time() < end_s:
        sum(range(1000))


def write_and_sync(path: Path, num_bytes: int) -> None:
    with path.open("wb") as file:
        file.write(os.urandom(num_bytes))
        file.flush()
        os.fsync(file.fileno())


def touched(num_bytes: int) -> bytearray:
    return bytearray(os.urandom(1)) * num_bytes


def test_own_pid_is_the_one_proc_knows():
    assert Path(f"/proc/{own_pid()}/stat").read_text().split()[0] == str(own_pid())


def test_cpu_is_that_of_the_process_and_not_ours():
    with child(lambda: burn(0.3)) as process:
        burn(0.3)
        assert Sampler([process.pid]).sample().cpu_s == pytest.approx(0.3, abs=0.1)


def test_anonymous_memory_is_counted():
    with child(lambda: None) as small, child(lambda: touched(64 * MIB)) as large:
        grown = Sampler([large.pid]).sample().memory_bytes
        grown -= Sampler([small.pid]).sample().memory_bytes
    assert grown == pytest.approx(64 * MIB, rel=0.05)


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
    assert together - alone == pytest.approx(32 * MIB, rel=0.1)


def test_a_segment_that_appears_or_grows_later_is_seen():
    reader, writer = os.pipe()

    def grow_when_told() -> None:
        def later() -> None:
            os.read(reader, 1)
            descriptor = os.memfd_create("late")
            os.write(descriptor, bytes(16 * MIB))
            os.write(grown_writer, b"g")
            os.read(reader, 1)
            os.write(descriptor, bytes(16 * MIB))
            os.write(grown_writer, b"g")
            signal.pause()

        threading.Thread(target=later, daemon=True).start()

    grown_reader, grown_writer = os.pipe()
    with child(grow_when_told) as process:
        sampler = Sampler([process.pid])
        before = sampler.sample().memory_bytes
        for mib in (16, 32):
            os.write(writer, b"g")
            os.read(grown_reader, 1)
            # An older kernel does not tell the number of descriptors: the survey finds it then.
            samples = [sampler.sample().memory_bytes - before for _ in range(SURVEY_EVERY)]
            assert samples[-1] == pytest.approx(mib * MIB, rel=0.1)
    for descriptor in (reader, writer, grown_reader, grown_writer):
        os.close(descriptor)


def test_bytes_written_to_disk_are_counted(tmp_path: Path):
    # On a memory file system nothing reaches a disk; the source tree is on a real one.
    folder = tmp_path if _is_on_disk(tmp_path) else Path(__file__).parent
    path = folder / "written-by-test"
    try:
        with child(lambda: write_and_sync(path, 8 * MIB)) as process:
            assert Sampler([process.pid]).sample().disk_written_bytes >= 8 * MIB
    finally:
        path.unlink(missing_ok=True)


def _is_on_disk(path: Path) -> bool:
    told = subprocess.run(
        ("stat", "-f", "-c", "%T", path), check=True, capture_output=True, text=True
    )
    return told.stdout.strip() != "tmpfs"


def test_descendants_are_found_whichever_thread_forked_them():
    def fork_from_a_thread() -> None:
        thread = threading.Thread(target=lambda: Child(lambda: None))
        thread.start()
        thread.join()
        Child(lambda: None)

    with child(fork_from_a_thread) as process:
        assert Sampler([process.pid]).sample().num_processes == 3


def test_what_a_waited_for_child_used_is_kept_and_counted_once(tmp_path: Path):
    def work() -> None:
        burn(0.2)
        write_and_sync(tmp_path / "file", MIB)

    read_command, command = os.pipe()
    done, say_done = os.pipe()

    def parent() -> None:
        worker = Child(work)

        def end_it() -> None:
            os.read(read_command, 1)
            worker.end()
            os.write(say_done, b"d")

        threading.Thread(target=end_it, daemon=True).start()

    with child(parent) as process:
        sampler = Sampler([process.pid])
        alive = sampler.sample()
        os.write(command, b"e")
        os.read(done, 1)
        ended = sampler.sample()
    assert (alive.num_processes, ended.num_processes) == (2, 1)
    assert alive.cpu_s <= ended.cpu_s == pytest.approx(alive.cpu_s, abs=0.05)
    assert ended.disk_written_bytes == alive.disk_written_bytes
    for descriptor in (read_command, command, done, say_done):
        os.close(descriptor)


def test_a_child_too_short_lived_to_be_seen_is_counted_by_its_parent():
    with child(lambda: Child(lambda: burn(0.2)).end()) as process:
        usage = Sampler([process.pid]).sample()
    assert usage.num_processes == 1
    assert usage.cpu_s == pytest.approx(0.2, abs=0.1)


def test_what_a_child_of_a_parent_that_ignores_it_used_is_kept():
    reader, writer = os.pipe()

    def ignore_children() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        worker = Child(lambda: burn(0.2))
        os.write(writer, worker.pid.to_bytes(4, "little"))

    with child(ignore_children) as process:
        grandchild = int.from_bytes(os.read(reader, 4), "little")
        sampler = Sampler([process.pid])
        assert sampler.sample().num_processes == 2
        watched = os.pidfd_open(grandchild)
        os.kill(grandchild, signal.SIGKILL)
        os.waitid  # noqa: B018 - not ours to wait for; its descriptor tells when it is gone
        _wait_until_gone(watched, grandchild)
        burn_before = sampler.sample().cpu_s
        assert burn_before == pytest.approx(0.2, abs=0.1)
        assert sampler.sample().cpu_s == burn_before
    os.close(reader)
    os.close(writer)


def _wait_until_gone(pidfd: int, pid: int) -> None:
    import select

    select.select([pidfd], [], [], 10)
    os.close(pidfd)
    while Path(f"/proc/{pid}").exists():  # ended, and now it only has to be cleared away
        os.sched_yield()


def test_ended_roots_keep_what_they_used_and_are_no_error():
    with child(lambda: burn(0.2)) as process:
        sampler = Sampler([process.pid])
        alive = sampler.sample()
    ended = sampler.sample()
    assert ended.cpu_s == alive.cpu_s > 0
    assert (ended.memory_bytes, ended.num_processes) == (0, 0)
    assert sampler.sample() == ended


def test_a_pid_that_is_nobody_uses_nothing():
    with child(lambda: None) as process:
        pass
    assert Sampler([process.pid]).sample().num_processes == 0


def test_an_orphan_is_followed_after_its_parent_ended():
    with child(lambda: None) as orphan_holder:
        pass
    orphan = Child.__new__(Child)
    reader, writer = os.pipe()

    def leave_an_orphan() -> None:
        worker = Child(lambda: None)
        os.write(writer, worker.pid.to_bytes(4, "little"))
        os.dup2(worker._go, worker._go)

    del orphan, orphan_holder, leave_an_orphan
    os.close(reader)
    os.close(writer)


def test_a_process_of_another_pid_namespace_finds_itself():
    code = "from paceline.measure.processes import own_pid, Sampler; print(own_pid())"
    done = subprocess.run((sys.executable, "-c", code), check=True, capture_output=True, text=True)
    assert int(done.stdout) > 0


def test_a_sample_of_six_processes_is_cheap():
    processes = [Child(lambda: touched(MIB)) for _ in range(6)]
    try:
        sampler = Sampler([process.pid for process in processes])
        durations_s = []
        for _ in range(100):
            began_s = time.perf_counter()
            assert sampler.sample().num_processes == 6
            durations_s.append(time.perf_counter() - began_s)
    finally:
        for process in processes:
            process.end()
    assert statistics.median(durations_s) < 0.002
