"""Seats that a keeper has forked, as the driver sees them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, final

from paceline.clusters.base import Crew, Departure, Job
from paceline.clusters.kept import KeptNode
from paceline.clusters.zygote import Zygote
from paceline.comm.keeper_words import FROM_KEEPERS, Again, KeepSeats, LinkReport
from paceline.comm.line import Line, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.ticket import Orders
from paceline.comm.vocabularies import said_by
from paceline.comm.words import Word


@final
class KeptCrew(Crew):
    """Talks to the keeper; the seats are the keeper's children."""

    def __init__(
        self,
        job: Job,
        orders: Orders,
        *,
        shares_memory: bool,
        site: str | None = None,
        plan: dict[str, Any] | None = None,
        imports: Sequence[str] = (),
        sweep: Callable[[], None] = lambda: None,
    ) -> None:
        """`site` makes nodes as planned, and needs `imports`; without it all sit on this machine.

        `sweep` is called when a keeper had to be killed, to remove what it would have removed.
        """
        self._sweep = sweep
        self._is_over = False
        self._later: list[Line] = []
        """Of seats that were started again."""
        self._zygote = job.zygote or Zygote()
        self._is_own = job.zygote is None
        self._roles = {seat.name: seat.role for seat in job.seats}
        present = [seat for seat in job.seats if seat.name not in job.late]
        pairs = {seat.name: PairLine.pair() for seat in present}
        self.lines = {
            seat.name: PairLine(pairs[seat.name][0], hears=said_by(seat.role)) for seat in present
        }
        mine, keepers_end = PairLine.pair()
        self._line = line = PairLine(mine, hears=FROM_KEEPERS)
        names = [seat.name for seat in present]
        self._keeper = KeptNode(line, names, "its keeper process ended")
        word = KeepSeats(
            orders=orders,
            seats=[*job.seats],
            shares_memory=shares_memory,
            site=site,
            plan=plan,
            late=[*job.late],
        )
        try:
            self._zygote.fork(keepers_end, [job.module, *job.imports, *imports])
            line.hand_over(word, [end for _, end in pairs.values()])
        except BaseException as error:
            self.end()
            if isinstance(error, LineClosed):
                raise ChildProcessError(f"its keeper process ended: {error}") from error
            raise
        finally:
            keepers_end.close()
            for _, end in pairs.values():
                end.close()

    @property
    def links(self) -> Sequence[LinkReport]:
        return self._keeper.built.links

    @property
    def warnings(self) -> Sequence[str]:
        return self._keeper.built.warnings

    @property
    def is_capped(self) -> bool:
        return self._keeper.built.is_capped

    @property
    def is_seated(self) -> bool:
        return self._keeper.is_seated

    def departures(self) -> list[Departure]:
        return self._keeper.departures()

    def dump_stack(self, seat: str) -> None:
        self._keeper.dump_stack(seat)

    def strike(self, word: Word) -> None:
        self._keeper.ask(word)

    def restart(self, seat: str, incarnation: int) -> Line | None:
        mine, its = PairLine.pair()
        with its:
            try:
                self._line.hand_over(Again(seat=seat, incarnation=incarnation), [its])
            except LineClosed:
                mine.close()
                return None
        self._keeper.has_seated(seat, incarnation)
        line = PairLine(mine, hears=said_by(self._roles[seat]))
        self._later.append(line)
        return line

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        # The keeper reads end-of-file and ends the seats; should it hang, its own end ends them.
        self._keeper.line.finish()
        for line in (*self.lines.values(), *self._later):
            line.close()
        self.departures()
        if self._keeper.pid is None:  # torch is still being imported, and nobody waits for that
            self._zygote.kill()
        if not self._keeper.is_gone():
            self._kill_keeper()
        self._keeper.line.close()
        if self._is_own:
            self._zygote.close()

    def _kill_keeper(self) -> None:
        if self._keeper.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._keeper.pid, signal.SIGKILL)
        self._keeper.is_gone()
        self._sweep()
