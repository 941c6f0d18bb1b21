"""What the programs of all peers share: options, MNIST as arrays, processes, and the answer.

Needs the standard library and numpy only: every peer's program imports it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

NUM_PIXELS = 784
NUM_CLASSES = 10
NUM_ROWS = 60_000
BATCH = 75
LR = 0.01

IMAGES_HEADER_BYTES = 16
LABELS_HEADER_BYTES = 8
_LOOK_S = 0.05
_PR_SET_PDEATHSIG = 1

Role = Callable[[], None]


@dataclass(frozen=True)
class Options:
    """What every program is told."""

    data: Path
    workers: int
    warm_up_s: float
    seconds: float


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--data", type=Path, default=Path(), help="the folder of MNIST's files")
    made.add_argument("--workers", type=int, default=3)
    made.add_argument("--warm-up-s", type=float, default=2.0)
    made.add_argument("--seconds", type=float, default=5.0)
    return made


def options(description: str | None) -> Options:
    return Options(**vars(parser(description).parse_args()))


def answer(rate: float, setting: str) -> None:
    """Print what was measured, and with which settings, as the last line."""
    print(json.dumps({"rate": rate, "setting": setting}), flush=True)


def images_path(folder: Path) -> Path:
    return folder / "train-images-idx3-ubyte"


def labels_path(folder: Path) -> Path:
    return folder / "train-labels-idx1-ubyte"


def mnist(folder: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """All training rows: pixels from 0 to 1, and classes."""
    pixels = np.fromfile(images_path(folder), np.uint8, offset=IMAGES_HEADER_BYTES)
    labels = np.fromfile(labels_path(folder), np.uint8, offset=LABELS_HEADER_BYTES)
    scaled = pixels.reshape(NUM_ROWS, NUM_PIXELS).astype(np.float32) / np.float32(255)
    return scaled, labels.astype(np.int64)


def rate_of(step: Callable[[], object], options: Options) -> float:
    """Steps a second of a loop, once it is warm."""
    _loop(step, options.warm_up_s)
    began_s = time.perf_counter()
    num_steps = _loop(step, options.seconds)
    return num_steps / (time.perf_counter() - began_s)


def _loop(step: Callable[[], object], seconds: float) -> int:
    ends_s = time.perf_counter() + seconds
    num_steps = 0
    while time.perf_counter() < ends_s:
        step()
        num_steps += 1
    return num_steps


def growth_of(count: Callable[[], int], options: Options) -> float:
    """How much a count of updates grows per second, once there is one and all are warm."""
    while not count():
        time.sleep(_LOOK_S)
    time.sleep(options.warm_up_s)
    began_s, before = time.perf_counter(), count()
    time.sleep(options.seconds)
    after, ended_s = count(), time.perf_counter()
    return (after - before) / (ended_s - began_s)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def carry_out(lead: Role, others: Sequence[Role], preload: str) -> None:
    """Run every role as a process until the lead has done its part, then end them all.

    All are forked from one process that has imported `preload`: an import of TensorFlow takes
    five seconds of processor time, and there are five processes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    done, says_done = context.Pipe(duplex=False)
    leader = context.Process(target=_lead, args=(lead, says_done), daemon=True)
    followers = [context.Process(target=_follow, args=(role,), daemon=True) for role in others]
    crew = [leader, *followers]
    for process in crew:
        process.start()
    is_done = _is_done(done, crew)
    for process in crew:
        process.kill()
    for process in crew:
        process.join()
    sys.exit(not is_done)


def _is_done(done: Connection, crew: Sequence[BaseProcess]) -> bool:
    """Wait for the lead to say so; False if any process fails before."""
    running = {process.sentinel: process for process in crew}
    while True:
        ended = wait([done, *running])
        if done in ended:
            return True
        for process in (running.pop(sentinel) for sentinel in ended if isinstance(sentinel, int)):
            process.join()
            if process.exitcode:
                return False


def _lead(role: Role, says_done: Connection) -> None:
    _follow(role)
    says_done.send(None)
    # All are ended at once: one that left on its own would make the others complain.
    signal.pause()


def _follow(role: Role) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    role()
    sys.stdout.flush()
