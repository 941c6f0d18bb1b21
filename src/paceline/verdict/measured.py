"""A run as a judge sees it: each worker's parts, and the one that the others wait for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, final

from paceline.verdict.parts import Parts, all_parts
from paceline.verdict.resources import LinkUse, links_of, node_of, wanted_share

if TYPE_CHECKING:
    from paceline.outcome.results import Result, ServerTotals, WorkerTotals


@final
@dataclass(frozen=True)
class Measured:
    """What is asked of a run over and over while it is judged."""

    result: Result
    parts: dict[str, Parts]

    @staticmethod
    def of(result: Result, least_steps: int) -> Measured | None:
        """Look at a run; None if too little of it was recorded.

        One that did not finish lacks what its seats say at their end, such as for whom they waited.
        """
        if result.status != "finished":
            return None
        parts = all_parts(result)
        steps = [each.worker_steps for each in result.workers]
        if not result.train_s or len(parts) < len(steps) or min(steps, default=0) < least_steps:
            return None
        return Measured(result, parts)

    @cached_property
    def steps(self) -> dict[str, int]:
        return {worker.name: worker.worker_steps for worker in self.result.workers}

    @cached_property
    def slowest(self) -> str:
        """The worker whose step takes longest, what it waits for others left out."""

        def step_s(name: str) -> float:
            parts = self.parts[name]
            return (parts.total_s - parts.wait_s) / self.steps[name]

        return max(self.parts, key=step_s)

    @property
    def critical(self) -> Parts:
        """The parts of the slowest worker: what its step takes, the run takes."""
        return self.parts[self.slowest]

    @property
    def slowest_worker(self) -> WorkerTotals:
        return next(each for each in self.result.workers if each.name == self.slowest)

    @cached_property
    def others(self) -> list[str]:
        return [name for name in self.parts if name != self.slowest]

    @property
    def others_wait(self) -> float:
        """The part of a step that the others wait longer than the slowest does.

        All wait for one another a little, each time for another one; that is nobody's fault.
        """
        shares = [self.parts[each].share(self.parts[each].wait_s) for each in self.others]
        own = self.critical.share(self.critical.wait_s)
        return max(0.0, median(shares) - own) if shares else 0.0

    def step_s(self, name: str, part: str) -> float:
        """Seconds of a step of one worker."""
        return float(getattr(self.parts[name], part)) / self.steps[name]

    def excess_s(self, part: str) -> float:
        """How much more of a part the slowest worker's step has than the others'."""
        others = median(self.step_s(each, part) for each in self.others)
        return self.step_s(self.slowest, part) - others

    @cached_property
    def links(self) -> list[LinkUse]:
        return links_of(self.result)

    @cached_property
    def fullest_link(self) -> LinkUse | None:
        return max(self.links, key=lambda link: link.in_use, default=None)

    @property
    def travelling(self) -> float:
        """The part of the time that something of the slowest worker travels, hidden or not."""
        hidden_s = self.slowest_worker.hidden_s or 0.0
        return self.critical.share(self.critical.transfer_s + hidden_s) or 1.0

    @property
    def is_overlapped(self) -> bool:
        """Whether gradients left while workers still computed."""
        return bool(self.slowest_worker.hidden_s)

    @property
    def takes_turns(self) -> bool:
        """Whether the fullest link is used one way after the other: a whole push, then the answer.

        Each way then has about half of the time; pieces that are answered one by one use both.
        """
        link = self.fullest_link
        return link is not None and link.full < 0.7 * self.travelling and link.in_use > link.full

    @property
    def wire_share(self) -> float:
        """The part of an exchange that bytes are on the fullest link; the rest is handling them."""
        link = self.fullest_link
        if link is None:
            return 0.0
        used = link.in_use if self.takes_turns else link.full
        return min(1.0, used / self.travelling)

    @cached_property
    def busiest_server(self) -> ServerTotals | None:
        return max(self.result.servers, key=self.server_share, default=None)

    def server_share(self, server: ServerTotals) -> float:
        """The part of the time that a server had something to do."""
        train_s = self.result.train_s or 1.0
        wanted = wanted_share(server, train_s)
        return wanted if wanted is not None else (server.busy_s or server.apply_s) / train_s

    @property
    def starved(self) -> float:
        """The part of its time that the slowest worker was ready to run and had no processor.

        Only its: ranks that wait for others yield, and so are ready though they want nothing.
        """
        return (self.slowest_worker.ready_s or 0.0) / (self.result.train_s or 1.0)

    @property
    def host(self) -> float:
        """How full the machine was."""
        return (self.result.host_cpu_percent or 0.0) / 100

    @property
    def other_programs(self) -> float | None:
        """The part of the machine's cores that was used, but not by this run; None: not known."""
        used = [node.cpu_percent_mean for node in self.result.nodes]
        own = [each for each in used if each is not None]
        if not self.result.host_cores or len(own) < len(used) or not own:
            return None
        return max(0.0, self.host - sum(own) / 100 / self.result.host_cores)

    def node(self, seat: str) -> str:
        return node_of(seat, self.result)
