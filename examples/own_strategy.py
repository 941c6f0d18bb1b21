"""A synchronous parameter server in sixty lines: a strategy of one's own.

    paceline run logistic-mnist --strategy examples/own_strategy.py:MySync --workers 3

Every worker sends its gradient to the one server, which averages them in the order of the
workers' ranks, applies the average, and sends the new parameters back. Where a gradient is not
finite, the whole step is refused and the parameters stay as they were.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, final

from paceline import OF_ANOTHER, Member, Message, Place, Strategy, Update, flaw_in

LAST, REFUSED = 1, 2  # bits of a message's tag


@final
class MySync(Strategy):
    """Update t averages the gradients that all workers computed on the same parameters."""

    @property
    def equals_single(self) -> bool:
        return True

    @property
    def repeats(self) -> bool:
        return True

    @property
    def num_servers(self) -> int:
        return 1

    def join(self, place: Place) -> Member:
        return _Worker(place)

    def serve(self, place: Place) -> NoReturn:
        parameters, channel = place.replica.parameters, place.channel
        update = Update(place.optimizer, parameters)
        workers = place.roster.workers
        number = 0
        while True:  # until `receive` says that the run is over
            pushes: dict[str, Message] = {}
            while len(pushes) < len(workers):
                message = channel.receive()
                pushes[message.sender] = message
            flags = 0
            for push in pushes.values():
                flags |= push.tag
            if not flags & REFUSED:
                number += 1
                total = pushes[workers[0]].values
                for worker in workers[1:]:
                    total += pushes[worker].values
                update.apply(total / len(workers), number)
            for worker in workers:
                channel.send(worker, parameters, tag=flags)


@final
class _Worker(Member):
    keeps_changes: ClassVar[bool] = False  # the server keeps the parameters

    def __init__(self, place: Place) -> None:
        self.place = place
        self.global_steps: int = 0

    def exchange(self, *, last: bool) -> bool:
        place, gradients = self.place, self.place.replica.gradients
        flaw = flaw_in(gradients.numpy())
        flags = (LAST if last else 0) | (REFUSED if flaw else 0)
        place.channel.send("server0", gradients, tag=flags)
        reply = place.channel.receive()
        place.replica.parameters.copy_(reply.values)
        if reply.tag & REFUSED:
            place.refusals.note(flaw or OF_ANOTHER, after=self.global_steps)
        else:
            self.global_steps += 1
        return bool(reply.tag & LAST)
