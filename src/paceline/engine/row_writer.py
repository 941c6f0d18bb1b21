"""When a worker writes a row it also looks around: at the driver, its sink and its model."""

from __future__ import annotations

from typing import final

from paceline.comm import words
from paceline.comm.seat_line import SeatLine
from paceline.compute.base import Compute
from paceline.measure.clock import Clock
from paceline.measure.profile import Profile
from paceline.measure.recorder import Recorder
from paceline.outcome.rows import StepsRow
from paceline.sinks.base import Sink
from paceline.strategies.base import Member


@final
class RowWriter:
    """Writes down how a worker's steps go, and tells the driver."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        clock: Clock,
        line: SeatLine,
        sink: Sink,
        member: Member,
        compute: Compute,
        profile: Profile | None,
    ) -> None:
        self.recorder = recorder
        self.clock = clock
        self.line = line
        self.profile = profile
        self._sink = sink
        self._member = member
        self._compute = compute

    def write(self, num_samples: int) -> None:
        """Write down the steps since the last row, and look whether the driver said anything."""
        recorder, member = self.recorder, self._member
        if recorder.losses:
            recorder.move_to_exchange(member.take_waited_ns())
            if self.profile is not None:
                recorder.loading.total_ns -= self.profile.take_spent_ns()
            row = recorder.write(
                self.clock.now_s(), num_samples, member.global_steps, member.exchanged()
            )
            self.line.offer(words.Stepped(StepsRow(**row)))
            self._compute.check()
        self._sink.check()
        self.line.poll()
