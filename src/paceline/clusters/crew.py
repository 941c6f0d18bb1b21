"""Seats that a keeper has forked, as the driver sees them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from paceline.clusters.base import Crew, Departure, Job, LinkReport
from paceline.clusters.zygote import Zygote
from paceline.comm.line import Line, LineClosed, Message

_PATIENCE_S = 5.0


@final
class KeptCrew(Crew):
    """Talks to the keeper; the seats are the keeper's children."""

    def __init__(
        self,
        job: Job,
        how: Mapping[str, Any],
        *,
        imports: Sequence[str] = (),
        sweep: Callable[[], None] = lambda: None,
    ) -> None:
        """`how` is what else the keeper has to know, as plain values; `imports`, what it needs.

        `sweep` is called when a keeper had to be killed, to remove what it would have removed.
        """
        self.is_seated = False
        self._sweep = sweep
        self._is_over = False
        self._zygote = job.zygote or Zygote()
        self._is_own = job.zygote is None
        self._keepers_pid: int | None = None
        self._sitting = {seat.name for seat in job.seats}
        pairs = {seat.name: Line.pair() for seat in job.seats}
        self.lines = {name: Line(mine) for name, (mine, _) in pairs.items()}
        mine, keepers_end = Line.pair()
        self._keepers_line = Line(mine)
        try:
            self._zygote.fork(keepers_end, [job.module, *job.imports, *imports])
            table = {**_job_table(job), "nodes": [], **how}
            self._keepers_line.hand_over("job", [end for _, end in pairs.values()], job=table)
        except BaseException as error:
            self.end()
            if isinstance(error, LineClosed):
                raise ChildProcessError(f"its keeper process ended: {error}") from error
            raise
        finally:
            keepers_end.close()
            for _, end in pairs.values():
                end.close()

    def departures(self) -> list[Departure]:
        left: list[Departure] = []
        try:
            while self._sitting and (message := self._keepers_line.receive(timeout_s=0)):
                left += self._hear(message)
        except LineClosed:
            left += self._all_left("its keeper process ended")
        return left

    def dump_stack(self, seat: str) -> None:
        with contextlib.suppress(LineClosed):  # then everyone is gone, which is noticed elsewhere
            self._keepers_line.send("dump", seat=seat)

    def _hear(self, message: Message) -> list[Departure]:
        if message["kind"] == "kept":
            self._keepers_pid = message["pid"]
            return []
        if message["kind"] == "built":
            self.links = [LinkReport(**each) for each in message["links"]]
            self.warnings = message["warnings"]
            self.is_capped = message["is_capped"]
            return []
        if message["kind"] == "seated":
            self.is_seated = True
            return []
        if message["kind"] == "cannot":
            return self._all_left(f"its node could not be created: {message['reason']}")
        self._sitting.discard(message["seat"])
        return [Departure(message["seat"], message["reason"])]

    def _all_left(self, reason: str) -> list[Departure]:
        left = [Departure(name, reason) for name in sorted(self._sitting)]
        self._sitting.clear()
        return left

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        # The keeper reads end-of-file and ends the seats; should it hang, its own end ends them.
        self._keepers_line.finish()
        for line in self.lines.values():
            line.close()
        self.departures()
        if self._keepers_pid is None:  # torch is still being imported, and nobody waits for that
            self._zygote.kill()
        if not self._is_keeper_gone():
            self._kill_keeper()
        self._keepers_line.close()
        if self._is_own:
            self._zygote.close()

    def _is_keeper_gone(self) -> bool:
        """Wait for the keeper's end of its line to close, which nobody else holds."""
        deadline_s = time.monotonic() + _PATIENCE_S
        try:
            while (left_s := deadline_s - time.monotonic()) > 0:
                if message := self._keepers_line.receive(left_s):
                    self._hear(message)
        except LineClosed:
            return True
        return False

    def _kill_keeper(self) -> None:
        if self._keepers_pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keepers_pid, signal.SIGKILL)
        self._is_keeper_gone()
        self._sweep()


def _job_table(job: Job) -> dict[str, object]:
    seats = [
        {
            "role": seat.role,
            "index": seat.index,
            "node": seat.node,
            "log": str(job.log_path(seat)),
        }
        for seat in job.seats
    ]
    return {
        "run_dir": str(job.run_dir),
        "run_key": job.run_key.hex(),
        "entry": job.entry,
        "threads": job.threads,
        "seats": seats,
    }
