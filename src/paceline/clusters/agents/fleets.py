"""Agents that are kept from one run to the next, so that each node imports torch once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

from paceline.clusters.agents.crew import AgentsCrew
from paceline.clusters.agents.fleet import Fleet, Launcher
from paceline.clusters.base import Crew, Job


def start_crew(
    job: Job,
    launcher: Launcher,
    *,
    join_s: float,
    encrypts: bool,
    interface: str | None = None,
    ports: Mapping[str, int] | None = None,
) -> Crew:
    """Start the seats of a run, by agents that are there already or are started now.

    Agents end with the job's zygote, which several runs share; without one, with the run.
    """
    nodes = list(dict.fromkeys(seat.node for seat in job.seats))
    fleets = Fleets() if job.zygote is None else job.zygote.shared(Fleets)
    fleet = fleets.of(nodes, launcher, join_s, job.tell)

    def let_go() -> None:
        if job.zygote is None:
            fleets.close()

    try:
        return AgentsCrew(
            job, fleet, encrypts=encrypts, let_go=let_go, interface=interface, ports=ports
        )
    except BaseException:
        fleets.discard(fleet)  # whatever it was, the next run should not meet it again
        raise


@final
class Fleets:
    """The fleets of runs that follow each other. Owned by the driver's thread."""

    def __init__(self) -> None:
        self._fleets: list[Fleet] = []

    def of(
        self,
        nodes: Sequence[str],
        launcher: Launcher,
        patience_s: float,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Fleet:
        """Give a fleet that has these nodes; agents that are missing are started, and waited for.

        One that has lost a node is not used again.
        """
        for fleet in [each for each in self._fleets if each.lost()]:
            self.discard(fleet)
        found = [each for each in self._fleets if each.fits(nodes, launcher)]
        fleet = found[0] if found else Fleet()
        if not found:
            self._fleets.append(fleet)
        try:
            fleet.add(nodes, launcher, patience_s, tell)
        except BaseException:
            self.discard(fleet)
            raise
        return fleet

    def discard(self, fleet: Fleet) -> None:
        """Have the agents of a fleet end. Idempotent."""
        self._fleets = [each for each in self._fleets if each is not fleet]
        fleet.close()

    def close(self) -> None:
        """Have all agents end. Idempotent."""
        for fleet in self._fleets:
            fleet.close()
        self._fleets = []
