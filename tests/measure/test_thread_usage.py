"""For how long a seat's threads had no processor."""

import mmap
import threading
import time
from pathlib import Path

import pytest

from paceline.measure import thread_usage
from paceline.measure.thread_usage import ThreadUsage, in_line_s


@pytest.fixture
def readings(monkeypatch):
    """What the kernel is to say, one reading after the other."""
    said: list[dict[str, float]] = []
    monkeypatch.setattr(thread_usage, "in_line_s", lambda: said.pop(0))
    return said


def test_the_thread_that_stood_in_line_longest_is_told_of_beside_ones_own(readings):
    own = Path("/proc/thread-self").readlink().name
    readings.append({own: 1.0, "another": 0.5, "ended": 9.0})
    usage = ThreadUsage()
    readings.append({own: 1.25, "another": 3.5, "new": 2.0})
    table = usage.table()
    assert table["ready_s"] == pytest.approx(0.25)
    assert table["most_ready_s"] == pytest.approx(3.0)
    assert table["cpu_s"] is not None


def test_a_kernel_that_does_not_count_leaves_both_open(readings):
    readings += [{}, {}]
    table = ThreadUsage().table()
    assert (table["ready_s"], table["most_ready_s"]) == (None, None)


def test_all_threads_of_the_process_are_looked_at():
    before = in_line_s()
    if not before:
        pytest.skip("this kernel does not count how long threads stand in line")
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        assert len(in_line_s().keys() - before.keys()) >= 2
        assert ThreadUsage().table()["ready_s"] is not None
    finally:
        done.set()
        for each in threads:
            each.join()


def burn(seconds: float) -> None:
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


def test_all_threads_of_the_process_count_and_what_is_left_out_does_not():
    usage = ThreadUsage()
    thread = threading.Thread(target=burn, args=(0.05,))
    thread.start()
    thread.join()
    with usage.left_out():
        burn(1.0)
    table = usage.table()
    assert table["process_cpu_s"] is not None
    assert table["cpu_s"] is not None
    assert 0.05 <= table["process_cpu_s"] < 0.9
    assert table["cpu_s"] < 0.05


def test_a_peak_of_memory_between_two_samples_is_known_afterwards():
    usage = ThreadUsage()
    before = usage.table()["own_peak_bytes"]
    if before is None:
        pytest.skip("this kernel does not let a process forget its peak")
    # Mapped anew: what an earlier test of this process freed may have stayed with malloc.
    with mmap.mmap(-1, 200_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held.write(b"x" * len(held))
    after = usage.table()
    assert after["own_peak_bytes"] > before + 100_000_000
    assert after["memory_peak_bytes"] >= after["own_peak_bytes"]


def test_seats_that_share_a_process_say_nothing_of_it():
    assert "process_cpu_s" not in ThreadUsage(is_alone=False).table()
