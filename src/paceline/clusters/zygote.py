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
from typing import Final, Protocol, Self, TypeVar, final

from paceline.clusters.base import SEAT_VARIABLE
from paceline.comm.keeper_words import Fork, Warm
from paceline.comm.line import LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.vocabularies import NOTHING
from paceline.system import address_space
from paceline.system.interpreter import own_command, safe_path

_PATIENCE_S: Final = 5.0


class Closable(Protocol):
    """What runs that follow each other share, such as agents on other machines."""

    def close(self) -> None:
        """Let go of it. Idempotent."""


_Shared = TypeVar("_Shared", bound=Closable)


@final
class Zygote:
    """The driver's side. Starts its process when it is first asked, and again where that died.

    Owned by one thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: PairLine | None = None
        self._environment: Mapping[str, str] = {}
        self._folder: str | None = None
        self._has_forked = False
        self._shared: dict[type[Closable], Closable] = {}

    def shared(self, kind: type[_Shared]) -> _Shared:
        """Give the one of its kind that all runs of this zygote share; it is closed with it."""
        if kind not in self._shared:
            self._shared[kind] = kind()
        found = self._shared[kind]
        assert isinstance(found, kind)
        return found

    def warm(self, imports: Sequence[str]) -> None:
        """Begin to import what keepers will need; does not wait, and whoever forks sees errors."""
        with contextlib.suppress(LineClosed, OSError):
            self._running().send(Warm(imports=[*imports], path=safe_path()))

    def fork(self, end: socket.socket, imports: Sequence[str]) -> None:
        """Have a keeper forked that holds one end of a line; the caller closes its own copy.

        Modules are imported first, unless they were for a keeper before.
        """
        try:
            self._fork(end, imports)
        except LineClosed:  # it died this moment
            self._stop()
            self._fork(end, imports)

    def close(self) -> None:
        """Have its process end, when the last keeper has, and all that is shared. Idempotent."""
        try:
            self._stop()
        finally:
            for each in self._shared.values():
                each.close()
            self._shared.clear()

    def _stop(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            if not self._has_forked:  # it may still import, for nobody
                self._process.kill()
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
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> PairLine:
        """Give the line to its process, which is started where there is none."""
        if self._line is None or self._process is None or self._process.poll() is not None:
            self._stop()
            self._start()
            assert self._line is not None
        return self._line

    def _fork(self, end: socket.socket, imports: Sequence[str]) -> None:
        line, folder = self._running(), _folder()
        word = Fork(
            imports=[*imports],
            path=safe_path(),
            environment=_changes(self._environment, _quiet_environment()),
            folder=None if folder == self._folder else folder,
        )
        line.hand_over(word, [end])
        self._has_forked = True

    def _start(self) -> None:
        address_space.check()
        self._has_forked = False
        mine, other = PairLine.pair()
        self._line = PairLine(mine, hears=NOTHING)
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
