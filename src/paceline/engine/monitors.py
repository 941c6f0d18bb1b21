"""The driver's word with the monitors: which phase begins, and whether they have noted it."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from paceline.comm.monitor_words import Enter, Observe
from paceline.comm.words import Phase
from paceline.engine.attendance import Attendance
from paceline.engine.lines import Lines


@final
class Monitors:
    """Tells them of each phase, and waits for their notes where nobody trains meanwhile."""

    def __init__(self, attendance: Attendance, lines: Lines, now: Callable[[], float]) -> None:
        self._attendance = attendance
        self._lines = lines
        self._now = now
        self._noting: set[tuple[str, Phase]] = set()
        self._then: Callable[[], None] | None = None

    def watch(self, then: Callable[[], None]) -> None:
        """Name the processes of each node to its monitor; go on when all watch them."""
        self._await("starting", then)
        for name in self._names():
            node = self._attendance.roster.node_of(name)
            self._lines.tell(name, Observe(self._attendance.pids_on(node)))

    def enter(self, phase: Phase, start_s: float | None = None) -> None:
        """A phase begins, and nobody waits until that is noted."""
        word = Enter(phase=phase, moment_s=self._now(), start_s=start_s)
        for name in self._names():
            self._lines.tell(name, word)

    def enter_then(self, phase: Phase, then: Callable[[], None]) -> None:
        """A phase begins in which nobody trains; go on when every monitor has noted what came
        before it.
        """
        self.enter(phase)
        self._await(phase, then)

    def _await(self, phase: Phase, then: Callable[[], None]) -> None:
        self._noting, self._then = {(name, phase) for name in self._names()}, then
        self._go_on()

    def noted(self, name: str, phase: Phase) -> None:
        """A monitor has noted what was carried before a phase."""
        self._noting.discard((name, phase))
        self._go_on()

    def forget(self, name: str) -> None:
        """The run goes on without a seat; if it was a monitor, without its note too."""
        self._noting = {each for each in self._noting if each[0] != name}
        self._go_on()

    @property
    def owing(self) -> set[str]:
        """Monitors whose note is waited for."""
        return {name for name, _ in self._noting}

    def _go_on(self) -> None:
        if not self._noting and self._then is not None:
            then, self._then = self._then, None
            then()

    def _names(self) -> list[str]:
        return self._attendance.names("monitor")
