"""A synchronous parameter server in forty lines: a strategy of one's own.

    paceline run logistic-mnist --strategy examples/own_strategy.py:MySync --workers 3

Every worker sends its gradient to the one server, which averages them in the order of the
workers' ranks, applies the average, and sends the new parameters back.
"""

from __future__ import annotations

from typing import NoReturn, final

from paceline import Member, Place, Strategy
from paceline.comm.base import Message
from paceline.optim import Update


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
        workers = [f"worker{rank}" for rank in range(place.num_workers)]
        number = 0
        while True:  # until `receive` says that the run is over
            number += 1
            pushes: dict[str, Message] = {}
            while len(pushes) < len(workers):
                message = channel.receive()
                pushes[message.sender] = message
            total = pushes[workers[0]].values
            for worker in workers[1:]:
                total += pushes[worker].values
            update.apply(total / len(workers), number)
            last = any(push.tag for push in pushes.values())
            for worker in workers:
                channel.send(worker, parameters, tag=last)


@final
class _Worker(Member):
    def __init__(self, place: Place) -> None:
        self.place = place
        self.global_steps: int = 0

    def exchange(self, *, last: bool) -> bool:
        self.place.channel.send("server0", self.place.replica.gradients, tag=last)
        reply = self.place.channel.receive()
        self.place.replica.parameters.copy_(reply.values)
        self.global_steps += 1
        return bool(reply.tag)
