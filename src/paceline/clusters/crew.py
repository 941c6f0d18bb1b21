"""Seats that a keeper has forked, as the driver sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, final

from paceline.clusters.base import SEAT_VARIABLE, Crew, Departure, Job, LinkReport
from paceline.comm.line import Line, LineClosed, Message

_PATIENCE_S = 5.0


@final
class KeptCrew(Crew):
    """Talks to the keeper, the one child; the seats are the keeper's children."""

    def __init__(
        self, job: Job, how: Mapping[str, Any], sweep: Callable[[], None] = lambda: None
    ) -> None:
        """`how` is what else the keeper has to know, as plain values.

        `sweep` is called when a keeper had to be killed, to remove what it would have removed.
        """
        self._sweep = sweep
        self.lines = {}
        ends = {}
        for seat in job.seats:
            mine, ends[seat.name] = Line.pair()
            self.lines[seat.name] = Line(mine)
        keepers_mine, keepers_end = Line.pair()
        self._keepers_line = Line(keepers_mine)
        descriptors = [end.fileno() for end in ends.values()]
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "paceline.clusters.keeper", str(keepers_end.fileno())],
            pass_fds=(keepers_end.fileno(), *descriptors),
            stdin=subprocess.DEVNULL,
            env=_quiet_environment(job.threads),
            start_new_session=True,
        )
        table = _job_table(job, dict(zip(ends, descriptors, strict=True)))
        self._keepers_line.send("job", job={**table, "nodes": [], **how})
        keepers_end.close()
        for end in ends.values():
            end.close()
        self._sitting = {seat.name for seat in job.seats}

    def departures(self) -> list[Departure]:
        left: list[Departure] = []
        try:
            while self._sitting and (message := self._keepers_line.receive(timeout_s=0)):
                left += self._hear(message)
        except LineClosed:
            left += self._all_left("its keeper is gone")
        return left

    def _hear(self, message: Message) -> list[Departure]:
        if message["kind"] == "built":
            self.links = [LinkReport(**each) for each in message["links"]]
            self.warnings = message["warnings"]
            self.is_capped = message["is_capped"]
            return []
        if message["kind"] == "cannot":
            return self._all_left(f"its node could not be made: {message['reason']}")
        self._sitting.discard(message["seat"])
        return [Departure(message["seat"], message["reason"])]

    def _all_left(self, reason: str) -> list[Departure]:
        left = [Departure(name, reason) for name in sorted(self._sitting)]
        self._sitting.clear()
        return left

    def end(self) -> None:
        # The keeper reads end-of-file and ends the seats; should it hang, its own end ends them.
        self._keepers_line.close()
        for line in self.lines.values():
            line.close()
        try:
            self._keeper.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
            self._sweep()


def _quiet_environment(threads: int) -> dict[str, str]:
    """Keep BLAS and OpenMP from starting a thread a core in each of several processes."""
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    quiet = {**dict.fromkeys(pools, str(threads)), "OPENBLAS_NUM_THREADS": "1"}
    # Gloo looks for an interface by the host's name, which need not lead to one.
    return {**os.environ, **quiet, SEAT_VARIABLE: "1", "GLOO_SOCKET_IFNAME": "lo"}


def _job_table(job: Job, descriptors: dict[str, int]) -> dict[str, object]:
    seats = [
        {
            "role": seat.role,
            "index": seat.index,
            "node": seat.node,
            "line": descriptors[seat.name],
            "log": str(job.log_path(seat)),
        }
        for seat in job.seats
    ]
    return {
        "run_dir": str(job.run_dir),
        "run_key": job.run_key.hex(),
        "entry": job.entry,
        "imports": list(job.imports),
        "threads": job.threads,
        "path": sys.path,
        "seats": seats,
    }
