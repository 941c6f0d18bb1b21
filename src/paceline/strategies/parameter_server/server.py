"""A server: keeps its part of the parameters, applies every update, answers every push."""

from __future__ import annotations

import contextlib
from typing import Any, final

from paceline.comm.base import Finished
from paceline.optim import Update
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.application import Application, Average, Each
from paceline.strategies.parameter_server.cuts import chunks_of, server_part
from paceline.strategies.parameter_server.keep import Keep
from paceline.strategies.parameter_server.link import PULL, ROWS, ServerLink
from paceline.strategies.parameter_server.messages import MessageServerLink
from paceline.strategies.parameter_server.rules import Rules
from paceline.strategies.parameter_server.shared import SharedServerLink


@final
class Server:
    """One server; its rules say which kind."""

    def __init__(self, place: Place, chunk_bytes: int, rules: Rules) -> None:
        whole = place.replica.parameters
        part = server_part(len(whole), place.num_servers, place.rank)
        chunks = chunks_of(part, place.rank, chunk_bytes // whole.element_size())
        self._link: ServerLink = (
            MessageServerLink(place, chunks)
            if place.host is None
            else SharedServerLink(place, place.host, chunks, exact=rules.admission.exact)
        )
        parameters = self._link.place_parameters(whole[part])
        row_update = _row_update(place, self._link)
        del whole
        place.replica.let_go()  # a server has its own part, once, and no gradients
        keep = Keep(
            parameters,
            update=Update(place.optimizer, parameters),
            row_update=row_update,
            chunks=chunks,
            link=self._link,
        )
        self._profiled = place.profiled
        num_starters = rules.num_starters(place.num_workers, place.most_steps)
        for rank in range(num_starters, place.num_workers):
            rules.admission.leave(rank)
        # Only the first server counts towards the end: each sees pushes in an order of its own.
        most_steps = place.most_steps if place.rank == 0 else None
        self.application: Application = (
            Each(keep, rules.admission, place.num_workers, most_steps)
            if rules.averaged is None
            else Average(keep, rules.averaged, place.num_workers, most_steps)
        )

    def run(self) -> dict[str, Any]:
        """Serve until the run is over; returns what was counted."""
        take, pull = self.application.take, self.application.pull
        answer_rows = self.application.keep.answer_rows
        with contextlib.suppress(Finished):
            for arrival in self._profiled(self._link.arrivals()):
                if arrival.flags & ROWS:
                    answer_rows(arrival)
                elif arrival.flags & PULL:
                    pull(arrival)
                else:
                    take(arrival)
        busy_s = self._link.busy_ns / 1e9
        return {**self.application.keep.tally.table(), "busy_s": busy_s}


def _row_update(place: Place, link: ServerLink) -> Update | None:
    """Make this server's part of the model's table, if it has one."""
    table, dtype = place.replica.table, place.replica.parameters.dtype
    if table is None:
        return None
    part = server_part(table.num_rows, place.num_servers, place.rank)
    return Update(place.optimizer, link.make_table(part.stop - part.start, table.width, dtype))
