"""Where keepers come from: a process that has imported torch and forks one for each run.

Importing torch takes longer than many a run does. Runs that follow each other share a zygote; a
run by itself has its own. A keeper that has been forked needs it no more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Self, final

from paceline.clusters.base import SEAT_VARIABLE
from paceline.comm.line import Line, LineClosed


@final
class Zygote:
    """The driver's side. Starts its process when it is first asked, and again where that died.

    Owned by one thread.
    """

    def __init__(self, imports: Iterable[str]) -> None:
        """`imports` are the modules that every keeper finds imported."""
        self._imports = [*imports]
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line | None = None
        self._environment: dict[str, str] = {}

    def fork(self, end: socket.socket) -> None:
        """Have a keeper forked that holds one end of a line; the caller closes its own copy."""
        try:
            self._fork(end)
        except LineClosed:  # it died this moment
            self.close()
            self._fork(end)

    def close(self) -> None:
        """End its process; keepers go on. Idempotent."""
        if self._process is not None and self._line is not None:
            self._line.close()
            self._process.kill()  # it may be in the middle of importing, and holds nothing
            self._process.wait()
        self._process = self._line = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fork(self, end: socket.socket) -> None:
        if self._line is None or self._process is None or self._process.poll() is not None:
            self.close()
            self._line = self._start()
        self._line.send("fork", environment=self._changes(), folder=os.getcwd())  # noqa: PTH109
        self._line.hand_over([end])

    def _changes(self) -> dict[str, str | None]:
        """What has changed in the environment since the process was started; None: it is gone."""
        names = {**self._environment, **os.environ}
        return {
            name: os.environ.get(name)
            for name in names
            if os.environ.get(name) != self._environment.get(name)
        }

    def _start(self) -> Line:
        mine, other = Line.pair()
        self._environment = {**os.environ}
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "paceline.clusters.zygote_process", str(other.fileno())],
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                env=_quiet_environment(),
                start_new_session=True,
            )
        line = Line(mine)
        line.send("begin", path=sys.path, imports=self._imports)
        return line


def _quiet_environment() -> dict[str, str]:
    """Keep BLAS and OpenMP from starting threads that no fork would have; seats set their own."""
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    # Gloo looks for an interface by the host's name, which need not lead to one.
    quiet = {**dict.fromkeys(pools, "1"), "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **quiet, SEAT_VARIABLE: "1"}
