"""What the zygote's process does: imports once, then forks a keeper for each line it is handed."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import threading

from paceline.clusters.keeper import keep
from paceline.comm.keeper_words import TO_KEEPERS, TO_ZYGOTES, Fork, Warm
from paceline.comm.line import LineClosed
from paceline.comm.pair_line import PairLine
from paceline.system import linux
from paceline.system.preloading import Preloading


def serve(fd: int, torch: Preloading) -> None:
    """Fork keepers until the driver's end of this line closes."""
    linux.name_process("pace-zygote")
    line = PairLine(socket.socket(fileno=fd), hears=TO_ZYGOTES)
    with contextlib.suppress(LineClosed):  # the driver is gone: keepers see it for themselves
        signal.signal(signal.SIGCHLD, _reap)
        while True:
            word, ends = line.take_over()
            assert isinstance(word, (Warm, Fork))
            _import_for(word, torch)
            if isinstance(word, Fork):
                (end,) = ends
                _fork(end, word, line)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # or what keepers have used would be counted to nobody


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _import_for(word: Warm | Fork, torch: Preloading) -> None:
    """Import what a keeper will need, once for all that are to come."""
    sys.path[:] = word.path
    missing = [name for name in word.imports if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(ImportError):  # a seat will say so
            importlib.import_module(name)
    torch.wait()
    if missing:
        assert threading.active_count() == 1, "a thread does not survive a fork"
        gc.collect()
        gc.freeze()  # the collector then leaves the shared pages of the forks alone


def _fork(end: int, surroundings: Fork, line: PairLine) -> None:
    if os.fork():
        os.close(end)
        return
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line.close()
        _adopt(surroundings)
        keep(PairLine(socket.socket(fileno=end), hears=TO_KEEPERS))
        code = 0
    except BaseException:  # noqa: BLE001 - or it would go on as a second zygote
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _adopt(surroundings: Fork) -> None:
    """Be as a process that was started now: not all of the zygote is for every run."""
    if surroundings.folder is not None:
        os.chdir(surroundings.folder)
    for name, value in surroundings.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    importlib.invalidate_caches()  # files may have come since
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed()  # noqa: NPY002 - or all runs draw the same where they ask for no seed
