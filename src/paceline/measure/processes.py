"""What a set of process trees uses, read cheaply from /proc while they run.

One sample of six torch processes takes about 0.5 ms on the reference machine: ten samples per
second cost less than one percent of a core.

Memory is anonymous memory of each process plus every memfd they hold, each memfd counted once.
Pages that forked processes still share copy-on-write are counted in each of them, and a memfd
that is mapped but whose descriptor was closed is not seen: only smaps knows, and it takes 26 ms
a large process.
"""

# A Path costs as much as the system call it is for, hence:
# ruff: noqa: PTH115, PTH116, PTH208

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

Segment = tuple[int, int]  # (st_dev, st_ino): the same memory in whichever process it is held

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own

# Looking through every thread for children (6 us a thread) and every descriptor for memfds
# (4 us a descriptor) would be most of a sample's cost, and both change rarely. So each sample
# looks at the main thread's children and at the number of descriptors (3 us a process; Linux
# 6.2 and later tell it), and at all of a process only every tenth time, in turn: 0.5 ms a sample
# of six torch processes, instead of 1.2.
SURVEY_EVERY = 10


@dataclass(frozen=True)
class TreeUsage:
    """What one tree has used since it began; it never decreases."""

    cpu_s: float
    disk_read_bytes: int
    disk_written_bytes: int


@dataclass(frozen=True)
class Usage:
    """What the trees use now, and what they have used since they began.

    `cpu_s` and the disk counters include processes that have ended and never decrease. The disk
    counters are None where a process's cannot be read.
    """

    cpu_s: float
    memory_bytes: int
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    num_processes: int
    are_all_here: bool
    """Whether every root process still runs; if not, what is held says little of what they took."""
    by_root: Mapping[int, TreeUsage]
    """Of each tree by itself."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One process at one moment; its counters include the children it has waited for."""

    pid: int
    parent_pid: int
    started_ticks: int  # with the pid it names one process for ever: pids are used again
    is_zombie: bool
    cpu_ticks: int
    anonymous_bytes: int
    disk_bytes: tuple[int, int] | None  # read, written


class Sampler:
    """Samples root processes and all their descendants; pids are those of /proc.

    A process that was seen once is followed until it ends, also when its parent ends first.
    Not for use by two threads at once.
    """

    def __init__(self, root_pids: Iterable[int]) -> None:
        self._root_pids = frozenset(root_pids)
        readings = (_read_process(pid) for pid in self._root_pids)
        self._live = {reading.pid: reading for reading in readings if reading}
        self._segments: dict[int, dict[Segment, str]] = {}
        self._num_descriptors: dict[int, int] = {}
        self._num_samples = 0
        self._roots = {pid: pid for pid in self._live}
        self._ended = dict.fromkeys(self._live, (0, 0, 0))  # ticks, bytes read, bytes written
        self._last = Usage(0.0, 0, 0, 0, 0, False, {})

    def sample(self) -> Usage:
        """Read every process once; ended processes are no error and keep what they had used."""
        self._num_samples += 1
        before = self._live
        self._live = _read_again(before.values())
        ended = {pid: old for pid, old in before.items() if pid not in self._live}
        self._adopt_children()
        self._settle(ended)
        self._find_segments()
        self._last = self._usage()
        return self._last

    def _is_due(self, pid: int) -> bool:
        """Whether to look at all of this process: at first, then in turn with the others."""
        return pid not in self._segments or (pid + self._num_samples) % SURVEY_EVERY == 0

    def _adopt_children(self) -> None:
        parents = list(self._live)
        while parents:
            parent = parents.pop()
            for pid in _children(parent, every_thread=self._is_due(parent)):
                if pid not in self._live and (reading := _read_process(pid)):
                    self._live[pid] = reading
                    self._roots[pid] = self._roots[parent]
                    parents.append(pid)

    def _settle(self, ended: dict[int, _Reading]) -> None:
        """Keep what ended processes had used, unless a process we follow has it on its account."""
        for reading in ended.values():
            if self._is_inherited(reading, ended):
                continue
            root = self._roots[reading.pid]
            self._ended[root] = _sum(self._ended[root], _counters(reading))

    def _is_inherited(self, reading: _Reading, ended: dict[int, _Reading]) -> bool:
        """Linux adds a child's CPU and disk counters to the parent that waits for it."""
        heir = reading.parent_pid
        while heir in ended:
            heir = ended[heir].parent_pid
        return heir in self._live and _waits_for_children(heir)

    def _find_segments(self) -> None:
        for pid in self._live:
            num_descriptors = _num_descriptors(pid)
            if self._is_due(pid) or num_descriptors != self._num_descriptors.get(pid):
                self._num_descriptors[pid] = num_descriptors
                self._segments[pid] = _memfds(pid)
        for pid in self._segments.keys() - self._live.keys():
            del self._segments[pid], self._num_descriptors[pid]

    def _shared_bytes(self) -> int:
        sizes: dict[Segment, int] = {}
        for segments in self._segments.values():
            for segment, path in segments.items():
                if segment not in sizes:
                    # Its size is asked for each time: a memfd grows as its pages are touched.
                    sizes.update(_size_bytes(path, segment))
        return sum(sizes.values())

    def _usage(self) -> Usage:
        """Never less than last time: a child may end between its parent's reading and its own."""
        readings = self._live.values()
        by_root = self._by_root()
        is_told = all(reading.disk_bytes is not None for reading in readings)
        read_bytes = sum(each.disk_read_bytes for each in by_root.values())
        written_bytes = sum(each.disk_written_bytes for each in by_root.values())
        return Usage(
            cpu_s=sum(each.cpu_s for each in by_root.values()),
            memory_bytes=sum(r.anonymous_bytes for r in readings) + self._shared_bytes(),
            disk_read_bytes=read_bytes if is_told else None,
            disk_written_bytes=written_bytes if is_told else None,
            num_processes=sum(not reading.is_zombie for reading in readings),
            are_all_here=all(self._is_here(pid) for pid in self._root_pids),
            by_root=by_root,
        )

    def _is_here(self, pid: int) -> bool:
        """Whether a process is there and has not begun to leave: it gives its memory back first."""
        reading = self._live.get(pid)
        return reading is not None and not reading.is_zombie and reading.anonymous_bytes > 0

    def _by_root(self) -> dict[int, TreeUsage]:
        sums = dict(self._ended)
        for pid, reading in self._live.items():
            root = self._roots[pid]
            sums[root] = _sum(sums[root], _counters(reading))
        return {root: _not_less(each, self._last.by_root.get(root)) for root, each in sums.items()}


Counters = tuple[int, int, int]


def _counters(reading: _Reading) -> Counters:
    return reading.cpu_ticks, *(reading.disk_bytes or (0, 0))


def _sum(first: Counters, second: Counters) -> Counters:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def _not_less(counters: Counters, last: TreeUsage | None) -> TreeUsage:
    ticks, read_bytes, written_bytes = counters
    if last is None:
        return TreeUsage(ticks / TICKS_PER_S, read_bytes, written_bytes)
    return TreeUsage(
        max(last.cpu_s, ticks / TICKS_PER_S),
        max(last.disk_read_bytes, read_bytes),
        max(last.disk_written_bytes, written_bytes),
    )


def _slurp(path: str) -> bytes:
    """The whole of a small /proc file, in half the time that open() takes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = part = os.read(descriptor, 4096)
        while len(part) >= 2048:  # /proc may give less than was asked for, before the end too
            part = os.read(descriptor, 4096)
            content += part
        return content
    finally:
        os.close(descriptor)


def _read_again(readings: Iterable[_Reading]) -> dict[int, _Reading]:
    pairs = ((old, _read_process(old.pid)) for old in readings)
    return {new.pid: new for old, new in pairs if new and new.started_ticks == old.started_ticks}


def _read_process(pid: int) -> _Reading | None:
    """None if there is no such process any more."""
    try:
        # The name, in parentheses, may hold spaces; what follows begins with field 3 of proc(5).
        stat = _slurp(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        statm = _slurp(f"/proc/{pid}/statm").split()
        disk_bytes = _disk_bytes(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Reading(
        pid=pid,
        parent_pid=int(stat[1]),
        started_ticks=int(stat[19]),
        is_zombie=stat[0] in b"ZX",
        cpu_ticks=sum(map(int, stat[11:15])),  # user, system, and both of waited-for children
        # resident - shared is RssAnon of /proc/<pid>/status, at half the cost.
        anonymous_bytes=(int(statm[1]) - int(statm[2])) * PAGE_BYTES,
        disk_bytes=disk_bytes,
    )


def _disk_bytes(pid: int) -> tuple[int, int] | None:
    try:
        words = _slurp(f"/proc/{pid}/io").split()
    except PermissionError:
        return None
    return int(words[words.index(b"read_bytes:") + 1]), int(words[words.index(b"write_bytes:") + 1])


def _children(pid: int, *, every_thread: bool) -> Iterator[int]:
    """Children are listed by the thread that forked them."""
    try:
        threads: Collection[str | int] = os.listdir(f"/proc/{pid}/task") if every_thread else (pid,)
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        try:
            yield from map(int, _slurp(f"/proc/{pid}/task/{thread}/children").split())
        except (FileNotFoundError, ProcessLookupError):
            continue


def _waits_for_children(pid: int) -> bool:
    """False for a process that ignores SIGCHLD: its children's counters go nowhere."""
    try:
        words = _slurp(f"/proc/{pid}/status").split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    ignored = int(words[words.index(b"SigIgn:") + 1], 16)
    return not ignored >> (signal.SIGCHLD - 1) & 1


def _num_descriptors(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/fd").st_size
    except OSError:
        return 0


def _memfds(pid: int) -> dict[Segment, str]:
    try:
        paths = [f"/proc/{pid}/fd/{descriptor}" for descriptor in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # ended, or not ours to look into
        return {}
    segments = {}
    for path in paths:
        try:
            if os.readlink(path).startswith("/memfd:"):
                status = os.stat(path)
                segments[status.st_dev, status.st_ino] = path
        except OSError:  # closed since it was listed
            continue
    return segments


def _size_bytes(path: str, segment: Segment) -> dict[Segment, int]:
    """Empty if the descriptor has become something else; another holder or survey will tell."""
    try:
        status = os.stat(path)
    except OSError:
        return {}
    found = (status.st_dev, status.st_ino)
    return {segment: status.st_blocks * BLOCK_BYTES} if found == segment else {}
