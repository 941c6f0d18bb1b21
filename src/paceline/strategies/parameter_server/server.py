"""A server: keeps its part of the parameters, applies every update, answers every push."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, final

from paceline.arithmetic.exchange import chunk_bytes_of
from paceline.comm.base import Finished
from paceline.errors import PeerLost
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.application import Application
from paceline.strategies.parameter_server.average import Average
from paceline.strategies.parameter_server.cuts import dealt, offsets, part_of, server_part
from paceline.strategies.parameter_server.each import Each
from paceline.strategies.parameter_server.link import (
    GREETING,
    PULL,
    ROWS,
    Arrival,
    ServerLink,
    greeting_of,
)
from paceline.strategies.parameter_server.membership import Membership
from paceline.strategies.parameter_server.memory_server_link import SharedServerLink
from paceline.strategies.parameter_server.message_server_link import MessageServerLink
from paceline.strategies.parameter_server.reunion import Reunion
from paceline.strategies.parameter_server.rules import Rules
from paceline.strategies.parameter_server.server_parameters import ServerParameters
from paceline.strategies.parameter_server.snapshots import EqualSnapshots, Snapshots
from paceline.training.row_update import RowUpdate, values_per_row
from paceline.training.state import (
    Adopting,
    Returning,
    State,
    StateReader,
    attributes,
    by_number,
)


@final
class Server(Adopting, Returning):
    """One server; its rules say which kind."""

    def __init__(
        self, place: Place, chunk_bytes: int, rules: Rules, *, snapshot_s: float = 0.0
    ) -> None:
        whole = place.replica.parameters
        chunk_bytes = chunk_bytes_of(whole.nbytes, place.num_servers, chunk_bytes)
        cut = dealt(len(whole), place.num_servers, chunk_bytes // whole.element_size())
        chunks = cut[place.rank]
        self._link: ServerLink = (
            MessageServerLink(place, chunks)
            if place.host is None
            else SharedServerLink(place, place.host, cut, exact=rules.admission.exact)
        )
        parameters = self._link.place_parameters(part_of(whole, chunks))
        row_update = _row_update(place, self._link)
        del whole
        place.replica.let_go()  # a server has its own part, once, and no gradients
        keep = ServerParameters(
            parameters,
            update=place.optimizer.update_of(
                parameters, {e.start: at for e, at in zip(chunks, offsets(chunks), strict=True)}
            ),
            row_update=row_update,
            chunks=chunks,
            link=self._link,
        )
        self._place = place
        self._profiled = place.profiled
        workers = place.roster.worker_numbers
        starters = rules.starters(workers, place.most_steps)
        for each in workers[len(starters) :]:
            rules.admission.leave(each)
        # Only the first server counts towards the end: each sees pushes in an order of its own.
        most_steps = place.most_steps if place.rank == 0 else None
        # Of several servers that average, all go back to one version.
        self._has_equals = rules.averaged is not None and place.num_servers > 1
        self.application: Application = (
            Each(keep, rules.admission, starters, most_steps, whole=rules.whole)
            if rules.averaged is None
            else Average(
                keep, rules.averaged, workers, most_steps, is_one_of_several=self._has_equals
            )
        )
        self._membership = Membership(place, self.application, self._link)
        self._snapshot_s = snapshot_s
        self._reunion: Reunion | None = None

    def snapshot(self) -> State:
        """Give what it needs to go on from here in another process, while workers push."""
        incarnations = by_number(self._membership.incarnations)
        return {
            "version": self.application.keep.version,
            "application": self.application.snapshot(),
            "incarnations": incarnations,
        }

    def come_back(self, snapshot: State | None) -> None:
        application, now = None, self._membership.incarnations
        before: Mapping[int, int] = now
        if snapshot is not None:
            with StateReader(snapshot) as fields:
                fields.whole("version")
                application = fields.table("application")
                before = fields.counts_by_number("incarnations")
        anew = [worker for worker in now.keys() & before.keys() if now[worker] != before[worker]]
        self.application.come_back(application, [*now], anew)
        self._reunion = Reunion(self._place, self.application)

    def state(self) -> State:
        """Give what it keeps and has counted, after the states of all workers were taken."""
        return attributes(self, "application")

    def load(self, state: State) -> None:
        with StateReader(state) as fields:
            fields.attributes(self, "application")

    def adopt(self, state: State) -> None:
        self.application.adopt(StateReader(state).table("application"))

    def run(self) -> dict[str, Any]:
        """Serve until the run is over; returns what was counted."""
        with contextlib.suppress(Finished):
            if self._place.survives:
                self._serve_on()
            else:
                self._serve()
        busy_s = self._link.busy_ns / 1e9
        return {**self.application.keep.tally.table(), "busy_s": busy_s}

    def _serve(self) -> None:
        take, pull = self.application.take, self.application.pull
        answer_rows = self.application.keep.answer_rows
        for arrival in self._profiled(self._link.arrivals()):
            if arrival.flags & ROWS:
                answer_rows(arrival)
            elif arrival.flags & PULL:
                pull(arrival)
            else:
                take(arrival)

    def _serve_on(self) -> None:
        """The same where workers may come and go."""
        place, members = self._place, self._membership
        look = self._snapshots().look
        if self._reunion is not None:
            members.changed = self._reunion.follow
            self._reunion.look()
        if place.host is None:
            place.channel.notice = members.follow
        else:
            place.host.notice = members.follow
        while True:
            try:
                for arrival in self._link.arrivals():
                    if members.includes(arrival.worker):
                        members.is_busy = True
                        self._take(arrival)
                        members.is_busy = False
                        members.settle()
                        look()
            except PeerLost as lost:
                members.is_busy = False
                members.report(lost)

    def _snapshots(self) -> Snapshots | EqualSnapshots:
        is_kept = self._place.servers_return and self._snapshot_s
        every_s = self._snapshot_s if is_kept else math.inf
        snapshots = Snapshots(every_s, self.snapshot, self._place.keep_snapshot)
        if not self._has_equals:
            return snapshots
        return EqualSnapshots(snapshots, lambda: self.application.keep.version)

    def _take(self, arrival: Arrival) -> None:
        if arrival.flags & GREETING:
            if self._reunion is not None:
                self._reunion.greet(greeting_of(arrival), arrival.version)
        elif arrival.flags & ROWS:
            self.application.keep.answer_rows(arrival)
        elif arrival.flags & PULL:
            self.application.pull(arrival)
        else:
            self.application.take(arrival)


def _row_update(place: Place, link: ServerLink) -> RowUpdate | None:
    """Make this server's part of the model's table, if it has one."""
    table, dtype = place.replica.table, place.replica.parameters.dtype
    if table is None:
        return None
    part = server_part(table.num_rows, place.num_servers, place.rank)
    num_values = values_per_row(place.optimizer, table.width)
    values = link.make_table(part.stop - part.start, num_values, dtype)
    return RowUpdate(place.optimizer, values, table.width)
