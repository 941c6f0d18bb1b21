"""Where keepers come from: a process that has imported torch and forks one for each run.

Importing torch takes longer than many a run does. Runs that follow each other share a zygote; a
run by itself has its own. A keeper that has been forked needs it no more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, Self, final

from paceline import address_space
from paceline.clusters.base import SEAT_VARIABLE
from paceline.comm.line import Line, LineClosed
from paceline.interpreter import own_command, safe_path

_PATIENCE_S: Final = 5.0


@final
class Zygote:
    """The driver's side. Starts its process when it is first asked, and again where that died.

    Owned by one thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line | None = None
        self._environment: Mapping[str, str] = {}
        self._folder: str | None = None

    def fork(self, end: socket.socket, imports: Sequence[str]) -> None:
        """Have a keeper forked that holds one end of a line; the caller closes its own copy.

        Modules are imported first, unless they were for a keeper before.
        """
        try:
            self._fork(end, imports)
        except LineClosed:  # it died this moment
            self.close()
            self._fork(end, imports)

    def close(self) -> None:
        """Have its process end, when the last keeper has. Idempotent."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._line = None

    def kill(self) -> None:
        """End its process at once, whatever it is doing; keepers go on."""
        if self._process is not None:
            self._process.kill()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fork(self, end: socket.socket, imports: Sequence[str]) -> None:
        if self._line is None or self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
            assert self._line is not None
        folder = _folder()
        self._line.hand_over(
            "fork",
            [end],
            imports=[*imports],
            path=safe_path(),
            environment=_changes(self._environment, _quiet_environment()),
            folder=None if folder == self._folder else folder,
        )

    def _start(self) -> None:
        address_space.check()
        mine, other = Line.pair()
        self._line = Line(mine)
        self._environment, self._folder = _quiet_environment(), _folder()
        with other:
            self._process = subprocess.Popen(
                own_command("paceline.clusters.zygote_process", str(other.fileno())),
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )


def _folder() -> str | None:
    """The folder we are in, if it is still there."""
    with contextlib.suppress(OSError):
        return os.getcwd()  # noqa: PTH109
    return None


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """What to set to have what is there now; None: to remove."""
    return {name: now.get(name) for name in {**before, **now} if before.get(name) != now.get(name)}


def _quiet_environment() -> dict[str, str]:
    """Keep BLAS and OpenMP from starting threads that no fork would have; seats set their own."""
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    # Gloo looks for an interface by the host's name, which need not lead to one.
    quiet = {**dict.fromkeys(pools, "1"), "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **quiet, SEAT_VARIABLE: "1"}
