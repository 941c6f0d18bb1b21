"""A cluster of plain subprocesses: the proof that a way to start seats is one small file.

No fork of ours, no inherited descriptor, no shared folder. A seat gets its ticket and an invitation
through its standard input, calls the driver over TCP, and works in a folder of its own.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
import time
from typing import Final, final

from paceline.clusters.base import SEAT_VARIABLE, Cluster, Crew, Departure, Job
from paceline.clusters.sitting import sit
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.line import Line
from paceline.comm.switchboard import Switchboard
from paceline.comm.ticket import Ticket
from paceline.comm.vocabularies import FROM_DRIVER, NOTHING, said_by
from paceline.reading import schema

_CALLING_S: Final = 120.0
_LOOK_S: Final = 0.1
_LEAVING_S: Final = 10.0


@final
class Subprocesses(Cluster):
    """One subprocess a seat."""

    @property
    def encrypts(self) -> bool:
        return True

    def start(self, job: Job) -> Crew:
        return _Crew(job)


@final
class _Crew(Crew):
    def __init__(self, job: Job) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._board = Switchboard(NOTHING)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.lines: dict[str, Line] = {}
        orders = job.orders(medium="tcp", encrypts=True, sees_folder=False)
        try:
            for seat in job.seats:
                self._start(Ticket(orders=orders, seat=seat))
            for name, process in self._processes.items():
                self.lines[name] = self._answered(name, process)
        except BaseException:
            self.end()
            raise

    def _start(self, ticket: Ticket) -> None:
        name = ticket.seat.name
        invitation = self._board.invite(name, hears=said_by(ticket.seat.role))
        papers = {
            "ticket": dataclasses.asdict(ticket),
            "invitation": dataclasses.asdict(invitation),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder.name),
            env={"PYTHONPATH": ":".join(sys.path), SEAT_VARIABLE: "1"},
        )
        self._processes[name] = process
        assert process.stdin is not None
        with process.stdin as papers_in:
            json.dump(papers, papers_in)

    def _answered(self, name: str, process: subprocess.Popen[str]) -> Line:
        deadline_s = time.monotonic() + _CALLING_S
        while time.monotonic() < deadline_s and process.poll() is None:
            if (line := self._board.answered(name, _LOOK_S)) is not None:
                return line
        raise ChildProcessError(f"{name} did not call within {_CALLING_S:g} s, or has ended")

    def departures(self) -> list[Departure]:
        left = {name: each.poll() for name, each in self._processes.items()}
        gone = {name: code for name, code in left.items() if code is not None}
        self._processes = {name: self._processes[name] for name in left.keys() - gone.keys()}
        return [Departure(name, _reason(code)) for name, code in gone.items()]

    def end(self) -> None:
        for line in self.lines.values():
            line.close()
        for process in self._processes.values():
            try:
                process.wait(_LEAVING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._board.close()
        self._folder.cleanup()


def _reason(code: int) -> str:
    if code < 0:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exit code {code}" if code else ""


def main() -> int:
    """Be a seat, as standard input says."""
    papers = json.load(sys.stdin)
    ticket = schema.read(Ticket, papers["ticket"], "ticket", strict=True)
    invitation = schema.read(Invitation, papers["invitation"], "invitation", strict=True)
    return sit(ticket, dial(invitation, hears=FROM_DRIVER))


if __name__ == "__main__":
    sys.exit(main())
