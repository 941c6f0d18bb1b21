"""The seats of a run as threads of the test: real members and servers, no driver, no process.

A test says which worker makes the next step, so that what depends on the order of arrivals repeats.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from paceline.clusters.base import Berth
from paceline.comm import vocabularies, words
from paceline.comm.host_memory import Host, close_holdings, make_holdings
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Roster, Seat
from paceline.comm.seat_line import SeatLine
from paceline.comm.ticket import Orders, Ticket
from paceline.engine.seating import take_place
from paceline.engine.worker import Worker
from paceline.engine.worker_state import load_worker, worker_state
from paceline.spec import RunSpec
from paceline.store.states import read_state, write_state
from paceline.training.state import State
from tests.sinks.kept import Kept

_PATIENCE_S = 30.0


@final
class Seats:
    """The workers and servers of a spec; `seated` makes them."""

    def __init__(self, spec: RunSpec, *, shared: bool = False) -> None:
        """`shared`: seats share memory, as those of one host do; else they send messages."""
        self._spec = spec
        seats = [seat for seat in spec.seats() if seat.role != "monitor"]
        names = [seat.name for seat in seats]
        self._boxes = boxes_for(names)
        self._holdings = make_holdings(names) if shared else None
        self._lines: dict[str, PairLine] = {}
        self._ends: list[SeatLine] = []
        self._berths = [self._berth(seat) for seat in seats]
        for line in self._lines.values():
            line.send(words.Members(Roster.of(seats)))
        self._pool = ThreadPoolExecutor(spec.num_workers)
        self.workers: list[Worker] = []
        self.servers: list[Any] = []
        self._threads: list[threading.Thread] = []

    def build(self) -> None:
        """Make all seats, as their processes would."""
        spec = self._spec
        of_servers = [each for each in self._berths if each.seat.role == "server"]
        of_workers = [each for each in self._berths if each.seat.role == "worker"]
        self.servers = [spec.strategy.server(take_place(each, spec)) for each in of_servers]
        self._threads = [threading.Thread(target=each.run, daemon=True) for each in self.servers]
        # Each in a thread of its own: some strategies wait for each other where they join.
        self.workers = list(self._pool.map(lambda each: Worker(each, spec), of_workers))

    def _berth(self, seat: Seat) -> Berth:
        mine, its = PairLine.pair()
        self._lines[seat.name] = PairLine(mine, hears=vocabularies.said_by(seat.role))
        line = SeatLine(PairLine(its, hears=vocabularies.FROM_DRIVER))
        self._ends.append(line)
        orders = Orders(
            entry="paceline.engine.worker:main",
            run_key="00" * 16,
            password="",
            encrypts=False,
            medium="unix",
            threads=1,
            folder=None,
        )
        return Berth(
            ticket=Ticket(orders=orders, seat=seat),
            line=line,
            sink=Kept(),
            open_channel=lambda: MemoryChannel(seat.name, self._boxes, line),
            host=None if self._holdings is None else Host(seat.name, self._holdings, line),
            spec=self._spec,
        )

    def start(self) -> None:
        """Have the servers serve."""
        for thread in self._threads:
            thread.start()

    def step(self, ranks: Iterable[int]) -> None:
        """Have workers make a step each, one after the other."""
        for rank in ranks:
            _step(self.workers[rank])

    def step_together(self, count: int) -> None:
        """Have all workers make so many steps at a time, as strategies want that wait for all."""

        def steps(worker: Worker) -> None:
            for _ in range(count):
                _step(worker)

        made = [self._pool.submit(steps, worker) for worker in self.workers]
        for each in made:
            each.result(_PATIENCE_S)

    def states(self) -> list[State]:
        """Give the states of all seats, workers first, and end the servers in between."""
        states = [worker_state(worker) for worker in self.workers]
        for index, thread in enumerate(self._threads):
            self._lines[f"server{index}"].send(words.Finish())
            thread.join(_PATIENCE_S)
            assert not thread.is_alive()
        return [*states, *(server.state() for server in self.servers)]

    def load(self, states: Sequence[State]) -> None:
        """Load states into seats that have not begun."""
        for worker, state in zip(self.workers, states, strict=False):
            load_worker(worker, state)
        for server, state in zip(self.servers, states[len(self.workers) :], strict=True):
            server.load(state)

    def close(self) -> None:
        for worker in self.workers:
            worker.member.close()
        self._pool.shutdown()
        for line in [*self._lines.values(), *self._ends]:
            line.close()
        close_holdings(self._holdings)


def _step(worker: Worker) -> None:
    session = worker.session
    session.compute(session.next_batch())
    session.exchange()
    session.pause()


@contextmanager
def seated(spec: RunSpec, **options: Any) -> Iterator[Seats]:
    """Seats that are closed when the test is done with them."""
    seats = Seats(spec, **options)
    try:
        seats.build()
        yield seats
    finally:
        seats.close()


def through_files(states: Sequence[State], folder: Path) -> list[State]:
    """Write states and read them back."""
    for index, state in enumerate(states):
        write_state(folder / f"seat{index}.state", state)
    return [read_state(folder / f"seat{index}.state") for index in range(len(states))]
