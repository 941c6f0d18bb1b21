"""What follows when a seat cannot be counted on any more: the run ends, or goes on, perhaps with
the seat started again. The policy decides (`departures.py`); this carries it out.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, final

from paceline.comm.keeper_words import Signal
from paceline.comm.line import Line
from paceline.comm.roster import Seat, Sitting
from paceline.comm.words import Restored, Word
from paceline.engine.attendance import Attendance
from paceline.engine.common_versions import CommonVersions
from paceline.engine.departures import (
    DeparturePolicy,
    EndRun,
    GoOn,
    KeepThenEnd,
    Loss,
    StartAgain,
    StartAllAgain,
)
from paceline.engine.disturbances import Disturbances
from paceline.engine.ending import Ending
from paceline.engine.gates import Gates
from paceline.engine.inheritance import Inheritance
from paceline.engine.last_checkpoint import LastCheckpoint
from paceline.engine.ledger import Ledger
from paceline.engine.monitors import Monitors
from paceline.engine.oddities import Odd
from paceline.engine.reports import Reports
from paceline.errors import StoreError
from paceline.outcome.disturbed import GOES_BACK_WITH, Setback
from paceline.sinks.deliveries import Deliveries

How = Literal["departed", "failed", "lost"]
Restart = Callable[[str, int], Line | None]


@final
class Losses:
    """Decides on each loss once, and brings back who is to come back."""

    def __init__(
        self,
        policy: DeparturePolicy,
        *,
        seats: Mapping[str, Seat],
        survives: bool,
        servers_return: bool = False,
        common_versions: CommonVersions | None = None,
        restart: Restart,
        strike: Callable[[Word], None],
        attendance: Attendance,
        monitors: Monitors,
        gates: Gates,
        ledger: Ledger,
        ending: Ending,
        inheritance: Inheritance,
        deliveries: Deliveries,
        disturbances: Disturbances,
        last_checkpoint: LastCheckpoint,
        recovery_s: float,
        known_s: float,
        now: Callable[[], float],
    ) -> None:
        """After a loss the others have `recovery_s` of training to say that they made an update;
        else the run ends with that as its cause. Within `known_s` it is known who is gone.
        """
        self._policy = policy
        self._seats = seats
        self._survives = survives
        self._restart = restart
        self._strike = strike
        self._attendance = attendance
        self._monitors = monitors
        self._gates = gates
        self._ledger = ledger
        self._ending = ending
        self._inheritance = inheritance
        self._deliveries = deliveries
        self._disturbances = disturbances
        self._last_checkpoint = last_checkpoint
        self._recovery_s = recovery_s
        self._known_s = known_s
        self._reports = Reports(now)
        self._returns: dict[str, float] = {}
        self._num_unasked: Counter[str] = Counter()
        """How often each seat was lost and started again though no fault asked for that."""
        self._servers_return = servers_return
        self._common_versions = common_versions
        self._away_since: dict[str, float] = {}
        """Servers that workers wait for."""
        self._restored: list[tuple[str, Restored]] = []
        self._now = now

    @property
    def is_anyone_awaited(self) -> bool:
        """Whether a seat is to be started that is away now, be it the last one."""
        is_training = self._gates.phase not in ("starting", "ending")
        return bool(self._returns) and is_training and not self._ending.is_aborted

    def reported(self, reporter: str, seat: str, reason: str, incarnation: int | None) -> None:
        """A seat says that it cannot reach another, and waits to hear who goes on.

        It may say so late: of one that was given up, and is there again.
        """
        if incarnation is not None and self._attendance.is_past(seat, incarnation):
            return
        if not self._survives:
            self.lose(seat, reason, "lost")
        elif not self._attendance.is_given_up(seat):
            self._reports.add(reporter, seat, reason)

    def attend(self) -> None:
        """Do what is due: give up who cannot be reached, start who is to come back."""
        found = self._reports.settled(self._returns)
        if found is not None:
            self._reports.forget(found[0])
            self.lose(*found, "lost")
        for name, due_s in list(self._returns.items()):
            if self._now() >= due_s:
                self._return(name, due_s)
        self._go_back()
        self._look_for_servers()
        self._last_checkpoint.attend()
        self._look_for_updates()

    def _look_for_updates(self) -> None:
        """End a run that does not go on after a loss; nobody makes updates while all rest."""
        if self._gates.phase != "training" or self._away_since.keys() & self._returns.keys():
            self._disturbances.wait_anew()
        waited_s = self._disturbances.waited_s()
        if waited_s > self._recovery_s:
            reason = f"no update was made for {waited_s:.0f} s after it was lost"
            self._ending.fail(self._disturbances.overdue, reason)

    def _return(self, name: str, due_s: float) -> None:
        """Start a seat again if it is gone; one that is still there need not come back."""
        if self._gates.phase in ("starting", "ending") or self._ending.is_aborted:
            return
        if self._last_checkpoint.cause is not None and self._seats[name].role == "worker":
            return  # it would be too late
        if self._attendance.is_away(name):
            del self._returns[name]
            self._bring_back(name)
        elif self._now() - due_s > self._known_s:
            del self._returns[name]  # should it be lost later, that is another matter

    def bring_back(self, name: str, at_s: float) -> None:
        """Have a seat started at a moment, or when it is gone, if that is a little later."""
        self._returns[name] = at_s

    def lose(self, name: str, reason: str, how: How) -> None:
        """A seat is not to be counted on any more: have it decided what that means."""
        attendance, ending = self._attendance, self._ending
        if attendance.is_given_up(name):
            return
        if ending.is_stopping or ending.is_aborted:
            ending.fail(name, reason)
            return
        match self._policy.decide(self._loss(name, reason, how)):
            case EndRun(why):
                ending.fail(*(self._last_checkpoint.cause or (name, self._at(name, why))))
            case KeepThenEnd(why) if self._last_checkpoint.is_possible:
                self._last_checkpoint.begin(name, self._at(name, why))
                self._take_out(name, reason, how)
            case KeepThenEnd(why):
                ending.fail(name, self._at(name, why))
            case StartAllAgain(why):
                self._note_setback(name, why)
                ending.fail(name, why)
            case GoOn():
                self._leave_rows(name)
                self._go_on_without(name, reason, how)
                self._take_servers_along(name)
            case StartAgain():
                self._num_unasked[name] += name not in self._returns
                self._go_on_without(name, reason, how)
                self._returns.setdefault(name, self._now())
                self._take_servers_along(name)

    def _take_servers_along(self, name: str) -> None:
        """Have all servers started again with one, where they go back together."""
        if self._common_versions is None or self._seats[name].role != "server":
            return
        for other, seat in self._seats.items():
            if seat.role == "server" and not self._attendance.is_away(other):
                self._take_out(other, f"{GOES_BACK_WITH} {name}", "lost")
                self._returns.setdefault(other, self._returns[name])

    def kept_snapshot(self, name: str, problem: str) -> None:
        """A server has kept a snapshot, or could not."""
        if self._common_versions is not None and not problem:
            try:
                self._common_versions.kept(name)
            except (StoreError, OSError) as error:
                problem = str(error)
        if problem:
            self._ledger.warn(f"{name} could not keep a snapshot: {problem}")

    def _leave_rows(self, name: str) -> None:
        """Have others take over what a worker leaves that does not come back."""
        sitting = self._attendance.sitting(name)
        if sitting is None or sitting.seat.role != "worker" or self._has_trained(sitting):
            return
        if name not in self._returns:
            servers = self._attendance.names("server")
            self._inheritance.lose(sitting, servers)

    def _loss(self, name: str, reason: str, how: How) -> Loss:
        sitting = self._attendance.sitting(name)
        return Loss(
            seat=self._seats[name],
            reason=reason,
            how=how,
            num_before=self._num_unasked[name],
            has_trained=sitting is not None and self._has_trained(sitting),
            num_workers_left=len(self._gates.taking_part - {name}),
            survives=self._survives,
            can_return=self._servers_return and self._seats[name].role == "server",
            is_expected=name in self._returns,
            has_servers=any(each.role == "server" for each in self._seats.values()),
            has_begun=sitting is not None and self._gates.phase != "starting",
        )

    def _at(self, name: str, reason: str) -> str:
        """Say on which node that was, where there are several."""
        nodes = {each.node for each in self._seats.values()}
        return f"{reason}, on {self._seats[name].node}" if len(nodes) > 1 else reason

    def _note_setback(self, name: str, reason: str) -> None:
        """Keep what whoever starts all seats again has to know."""
        index = self._disturbances.known(name, self._seats[name].node, reason)
        self._ledger.outcome.setback = Setback(
            index=index, time_s=self._ledger.time_s, moment_s=self._now()
        )

    def _has_trained(self, sitting: Sitting) -> bool:
        is_coming = self._attendance.is_coming(sitting.name)
        return sitting.seat.role == "worker" and self._gates.has_trained(sitting.name, is_coming)

    def _go_on_without(self, name: str, reason: str, how: How) -> None:
        if name not in self._returns:
            is_awaited = name in self._attendance.names("server")
            how_it_went = "waited for" if is_awaited else "went on without"
            self._ledger.warn(f"the run {how_it_went} {name}: {reason}")
        self._take_out(name, reason, how)

    def _take_out(self, name: str, reason: str, how: How) -> None:
        """The seat is no part of the run any more."""
        if how != "departed":  # something of it may be left
            self._strike(Signal(seat=name, number=signal.SIGKILL))
        self._reports.forget(name)
        sitting = self._attendance.sitting(name)
        if sitting is not None and self._is_missed(sitting):
            self._disturbances.known(name, self._seats[name].node, reason)
        self._attendance.give_up(name)
        self._monitors.forget(name)
        self._gates.forget(name)

    def _is_missed(self, sitting: Sitting) -> bool:
        """Whether it costs the run something that a seat is away."""
        role = sitting.seat.role
        if role == "server":
            self._away_since[sitting.name] = self._now()
        return role == "server" or (role == "worker" and not self._has_trained(sitting))

    def restored(self, name: str, word: Restored) -> None:
        """A server that was started again serves: all go on from the version it went back to."""
        if self._away_since.pop(name, None) is None:
            raise Odd.out_of_turn(Restored)
        self._restored.append((name, word))

    def _go_back(self) -> None:
        """Have workers that rest go on: those that went back reach the gate later.

        Done when all that was said has been heard: who rests may have said so just now.
        """
        restored, self._restored = self._restored, []
        for name, word in restored:
            self._disturbances.restored(name, word.version, word.num_lost)
            self._ledger.warn(
                f"{name} was started again from version {word.version:,}: "
                f"{word.num_lost:,} updates were lost"
            )
            self._gates.go_back()

    def _look_for_servers(self) -> None:
        """End a run whose server does not come back."""
        for name, since_s in self._away_since.items():
            if name in self._returns:  # it is not yet to be started
                continue
            away_s = self._now() - since_s
            if away_s > self._recovery_s and not self._ending.is_aborted:
                self._ending.fail(
                    name, f"it did not serve {away_s:.0f} s after it was started again"
                )
                return

    def _laid_out(self, name: str) -> bool:
        """Whether a server that goes back with others finds what it goes back to."""
        if self._common_versions is None or self._seats[name].role != "server":
            return True
        try:
            self._common_versions.agree()  # all are away, or have not begun
        except (StoreError, OSError) as error:
            self._ending.fail(name, f"its snapshot could not be laid out: {error}")
            return False
        return True

    def _bring_back(self, name: str) -> None:
        if not self._laid_out(name):
            return
        line = self._restart(name, self._attendance.next_incarnation(name))
        if line is None:
            self._ending.fail(name, "it is gone, and its cluster cannot start it again")
            return
        self._ledger.warn(f"{name} was started while the others trained")
        self._attendance.call_back(self._seats[name], line)
        if name in self._away_since:
            self._away_since[name] = self._now()
        self._deliveries.begin_again(name)
        self._disturbances.started(name)
