"""Has the faults of a spec strike, each at its moment, and end after its time."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Collection, Sequence
from typing import final

from paceline.comm.keeper_words import Cut, Signal, Slow
from paceline.comm.roster import Roster
from paceline.comm.words import Word
from paceline.engine.disturbances import Disturbances
from paceline.faults import Fault
from paceline.seats import role_of


@final
class Injector:
    """Called again and again; never waits."""

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        seed: int,
        strike: Callable[[Word], None],
        bring_back: Callable[[str, float], None],
        disturbances: Disturbances,
        now: Callable[[], float],
        dilation: float = 1.0,
    ) -> None:
        """`bring_back` has a seat started at a moment of `now`, when it is gone.

        What faults say is of the training clock, which `dilation` slows.
        """
        self._strike = strike
        self._bring_back = bring_back
        self._disturbances = disturbances
        self._now = now
        self._dilation = dilation
        self._due = [each for each in faults if each.kind != "random"]
        self._random = [
            _RandomKills(
                each,
                seed if each.seed is None else each.seed,
                num_before=disturbances.num_struck(str(each)),
            )
            for each in faults
            if each.kind == "random"
        ]
        self._lasting: list[tuple[float, Fault]] = []
        self._killed: dict[str, int] = {}
        """Which incarnation of a seat was killed at random last."""

    def strike_due(
        self, time_s: float, steps: int, roster: Roster, living: Collection[str]
    ) -> None:
        """While the run trains, strike what is due after these seconds and updates.

        `living` workers have parameters.
        """
        for fault in [each for each in self._due if each.is_due(time_s, steps)]:
            self._due.remove(fault)
            self._begin(fault, roster)
        for each in self._random:
            for victim in each.due(time_s, *self._left(roster, living)):
                self._kill(victim, str(each.fault), each.fault.lasts_s)
                self._killed[victim] = roster.by_name[victim].incarnation

    def conclude(self) -> None:
        """The run is over: tell which faults never struck."""
        for fault in self._due:
            self._disturbances.missed(str(fault), "the run was over before")
        self._due.clear()

    def end_due(self) -> None:
        """End what has lasted its time, whatever the run does then."""
        now_s = self._now()
        over = [fault for end_s, fault in self._lasting if end_s <= now_s]
        self._lasting = [each for each in self._lasting if each[0] > now_s]
        for fault in over:
            self._end(fault)

    def _left(self, roster: Roster, living: Collection[str]) -> tuple[list[str], set[str]]:
        """Give all seats, and workers with parameters, but for those killed and not missed yet."""
        names = [
            each.name for each in roster.sittings if self._killed.get(each.name) != each.incarnation
        ]
        return names, {*living} & {*names}

    def _begin(self, fault: Fault, roster: Roster) -> None:
        if fault.kind not in ("cut", "late") and fault.who not in roster.by_name:
            self._disturbances.missed(str(fault), f"{fault.who} was away")
            return
        match fault.kind:
            case "kill" | "restart":
                self._kill(fault.who, str(fault), fault.lasts_s)
                return
            case "late":
                self._disturbances.struck(fault.who, str(fault))
                self._bring_back(fault.who, self._now())
                return
            case "stop":
                self._strike(Signal(seat=fault.who, number=signal.SIGSTOP))
            case "slow":
                self._strike(Slow(seat=fault.who, factor=fault.factor or 1.0))
            case "cut":
                self._strike(Cut(node=fault.who, is_down=True))
        self._disturbances.struck(fault.who, str(fault))
        if fault.lasts_s is not None:
            end_s = self._after(fault.lasts_s)
            self._lasting.append((end_s, fault))
            for name in _struck_seats(fault, roster):
                self._bring_back(name, end_s)

    def _after(self, seconds: float) -> float:
        return self._now() + seconds * self._dilation

    def _kill(self, who: str, fault: str, away_s: float | None) -> None:
        self._disturbances.struck(who, fault)
        if away_s is not None:
            self._bring_back(who, self._after(away_s))
        self._strike(Signal(seat=who, number=signal.SIGKILL))

    def _end(self, fault: Fault) -> None:
        match fault.kind:
            case "stop":
                self._strike(Signal(seat=fault.who, number=signal.SIGCONT))
            case "slow":
                self._strike(Slow(seat=fault.who, factor=1.0))
            case _:
                self._strike(Cut(node=fault.who, is_down=False))
        self._disturbances.ended(str(fault))


def _struck_seats(fault: Fault, roster: Roster) -> list[str]:
    """Who may be given up meanwhile, and is to come back: the workers that a cut or a stop hits."""
    if fault.kind == "cut":
        return [name for name in roster.workers if roster.node_of(name) == fault.who]
    is_worker = fault.kind == "stop" and fault.who in roster.workers
    return [fault.who] if is_worker else []


@final
class _RandomKills:
    """Kills one about every so many seconds, and never the last worker that lives."""

    def __init__(self, fault: Fault, seed: int, num_before: int) -> None:
        """`num_before` kills were made in earlier attempts at the run; these count too."""
        self.fault = fault
        # Other numbers in each attempt: the same victim after the same time may be all there is.
        self._draw = random.Random(seed + num_before)  # noqa: S311 - anyone may guess it
        self._num = num_before
        self._next_s: float | None = self._gap_s() if num_before == 0 else None

    def _gap_s(self) -> float:
        assert self.fault.mtbf_s is not None
        return self._draw.expovariate(1 / self.fault.mtbf_s)

    def due(self, time_s: float, seats: Sequence[str], living: Collection[str]) -> list[str]:
        if self._next_s is None:  # an attempt begins where the last one's clock was
            self._next_s = time_s + self._gap_s()
        if time_s < self._next_s or self._num == self.fault.most:
            return []
        wanted = {"workers": ("worker",), "servers": ("server",), "all": ("worker", "server")}
        roles = wanted[self.fault.victims]
        names = [name for name in seats if role_of(name) in roles]
        if len(living) == 1:
            names = [name for name in names if name not in living]
        if not names:
            return []  # it strikes as soon as another lives
        self._next_s = max(time_s, self._next_s + self._gap_s())
        self._num += 1
        return [self._draw.choice(names)]
