"""What a seat's process prints: its log, in a file or by way of its sink."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paceline.clusters.minding import DUMP
from paceline.errors import Aborted
from paceline.sinks.line import LineSink

_READ_BYTES: Final = 1 << 16
# How often what the line had no room for is offered again while nothing is printed.
_AGAIN_MS: Final = 200
# How long is waited for the end of what was printed: a child of the seat's may still hold it open.
_PATIENCE_S: Final = 1.0


def print_to_file(path: Path) -> None:
    """Have this process print into a file from now on."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    _print_to(log)


def _print_to(descriptor: int) -> None:
    """Print there, stacks too: those of a crash, and those that the driver asks for."""
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(DUMP)


@contextlib.contextmanager
def printing_to_sink(sink: LineSink) -> Iterator[None]:
    """Have this process print into a pipe, which a thread reads and appends to the seat's log.

    What is printed while some C function holds Python's lock arrives when it lets go, and what a
    process that is killed printed in its last moment may not.
    """
    sink.append("log", b"")
    before = (os.dup(1), os.dup(2))
    reader, writer = os.pipe()
    _print_to(writer)
    thread = threading.Thread(target=_pass_on, args=(reader, sink), name="printed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        for number, descriptor in enumerate(before, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        thread.join(_PATIENCE_S)


def _pass_on(reader: int, sink: LineSink) -> None:
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    is_over = False
    while not is_over:
        is_silent = not poller.poll(_AGAIN_MS)
        data = b"" if is_silent else os.read(reader, _READ_BYTES)
        is_over = not (data or is_silent)
        # When the driver is gone it is still read: whoever prints must come to its own end.
        with contextlib.suppress(Aborted):
            if data:
                sink.append("log", data)
            else:
                sink.offer_waiting()
    os.close(reader)
