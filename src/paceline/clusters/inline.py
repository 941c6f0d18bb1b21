"""Everything in this process, a thread a seat: for a debugger, and for notebooks."""

from __future__ import annotations

import sys
import threading
from typing import ClassVar, final

from paceline.clusters.base import Berth, Cluster, Crew, Departure, Job, entry_function
from paceline.comm.memory import Boxes, MemoryChannel, boxes_for
from paceline.comm.pair_line import PairLine
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Ticket
from paceline.comm.vocabularies import FROM_DRIVER, said_by
from paceline.comm.words import Here
from paceline.sinks.choice import sink_of
from paceline.sinks.folder import FolderSink
from paceline.store.runs import RunDir
from paceline.system.linux import own_pid

_PATIENCE_S = 5.0


@final
class Inline(Cluster):
    """Threads of this process.

    Breakpoints work, and a class defined in a notebook can be used. Threads share torch's random
    numbers and Python's lock, so it is no place to measure, and with several workers a model that
    draws random numbers while training (dropout) does not repeat.
    """

    shares_process: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "inline"

    def start(self, job: Job) -> Crew:
        return _InlineCrew(job)


@final
class _InlineCrew(Crew):
    def __init__(self, job: Job) -> None:
        import torch

        self._entry = entry_function(job.entry)
        orders = job.orders(medium="unix", encrypts=False)
        boxes = boxes_for([seat.name for seat in job.seats])
        self.lines = {}
        self._threads: dict[str, threading.Thread] = {}
        self._codes: dict[str, int] = {}
        run = RunDir(job.run_dir)
        self._logs = {seat.name: FolderSink(run, seat) for seat in job.seats}
        for seat in job.seats:
            mine, its = PairLine.pair()
            self.lines[seat.name] = PairLine(mine, hears=said_by(seat.role))
            line = SeatLine(PairLine(its, hears=FROM_DRIVER))
            arguments = (job, Ticket(orders=orders, seat=seat), line, boxes)
            self._threads[seat.name] = threading.Thread(
                target=self._sit, args=arguments, name=seat.name, daemon=True
            )
        # One number for the whole process; put back when the crew has ended.
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(job.threads)
        for thread in self._threads.values():
            thread.start()

    def _sit(self, job: Job, ticket: Ticket, line: SeatLine, boxes: Boxes) -> None:
        seat = ticket.seat
        line.send(Here(pid=own_pid()))
        sink = sink_of(ticket, line)
        berth = Berth(
            ticket=ticket,
            line=line,
            sink=sink,
            open_channel=lambda: MemoryChannel(seat.name, boxes, line),
            spec=job.spec,
        )
        self._codes[seat.name] = self._entry(berth)
        sink.close()
        line.close()

    def dump_stack(self, seat: str) -> None:
        thread = self._threads.get(seat)
        frames = sys._current_frames()  # noqa: SLF001 - documented, whatever its name
        frame = frames.get(thread.ident or 0) if thread else None
        lines = [f"Thread {seat} (most recent call first):"]
        while frame is not None:
            code = frame.f_code
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}')
            frame = frame.f_back
        self._logs[seat].append("log", ("\n".join(lines) + "\n").encode())

    def departures(self) -> list[Departure]:
        gone = [name for name, thread in self._threads.items() if not thread.is_alive()]
        left = []
        for name in gone:
            del self._threads[name]
            code = self._codes.get(name, 1)
            left.append(Departure(name, f"exit code {code}" if code else ""))
        return left

    def end(self) -> None:
        import torch

        for line in self.lines.values():
            line.close()
        for thread in self._threads.values():
            thread.join(_PATIENCE_S)
        for log in self._logs.values():
            log.close()
        torch.set_num_threads(self._threads_before)
