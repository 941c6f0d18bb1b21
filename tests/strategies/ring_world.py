"""Workers of a ring as threads of one process, whose channels can kill them at any message.

Every gradient is 1, so every mean is 1, whoever takes part: after k updates of plain SGD each
parameter is -k times the learning rate, and with momentum it is known too. An update that was lost
or made twice shows. One thread
runs at a time, and a number says which: a schedule that fails once fails always. Where nobody can
go on, that is said at once, with what each of them waits for.
"""

import contextlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import torch
from torch import Tensor, nn

from paceline.comm.base import Channel, Message, bytes_of
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.errors import PeerLost
from paceline.strategies.all_reduce.ring import RingMember
from paceline.strategies.base import Place
from paceline.training.optim import Sgd
from paceline.training.replica import Replica
from tests.strategies.turns import Ended, Player, RunOver

RATE = 0.125
_MOST_TURNS = 20_000
# How often a channel that has a message looks at what the driver said first.
_LOOKS = 0.2


@dataclass
class Schedule:
    """What happens to whom. A moment is a number of messages that a worker sent or received."""

    workers: int
    steps: int
    kills: dict[str, int] = field(default_factory=dict)
    """At which moment a worker is killed, by `name.incarnation`."""
    silent: set[str] = field(default_factory=set)
    """Whose death is noticed only when others miss it, or cannot go on."""
    cut: set[str] = field(default_factory=set)
    """Who is given up at that moment, and goes on for a while nevertheless."""
    returns: set[str] = field(default_factory=set)
    """Workers that are started again once they are gone."""
    late: set[str] = field(default_factory=set)
    order: int = 0
    """Which of all that could happen next happens, at each turn."""
    momentum: float = 0.0
    """Then a newcomer needs what the others' optimizers have, too."""


class World:
    """The driver, and what carries the messages."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.random = Random(schedule.order)
        self.workers: list[Worker] = []
        self.is_over = False
        self.num_turns = 0
        self.incarnations: Counter[str] = Counter()
        names = [f"worker{index}" for index in range(schedule.workers)]
        present = [name for name in names if name not in schedule.late]
        self.roster = Roster.of([_seat(name) for name in present])
        self.to_come = [name for name in names if name in schedule.late]
        self.gone: list[str] = []
        """Whose end the driver is about to notice."""
        self.unnoticed: list[str] = []
        for name in present:
            self.workers.append(Worker(self, name, 0, self.roster, is_late=False))

    @property
    def members(self) -> dict[str, "Worker"]:
        """The newest incarnation of each worker that is on the roster."""
        newest = {each.name: each for each in self.workers}
        return {name: newest[name] for name in self.roster.workers}

    def play(self) -> None:
        """Go on to the end; raises where it does not come."""
        try:
            for self.num_turns in range(_MOST_TURNS):
                if all(each.done is not None and each.lives for each in self.members.values()):
                    return
                self._choose()()
                for each in self.workers:
                    if each.player.error is not None:
                        raise each.player.error
            raise AssertionError(f"they do not come to their end: {self._standing()}")
        finally:
            self.is_over = True
            for each in self.workers:
                each.player.end(RunOver)

    def _choose(self) -> Callable[[], None]:
        moves = [each.player.take_turn for each in self.workers if each.player.can_go_on]
        moves += [each.hear for each in self.workers if each.words]
        moves += [each.strike for each in self.workers if each.is_cut and not each.player.is_ended]
        moves += [self._give_up_first] * bool(self.gone)
        moves += [self._let_in] * bool(self._is_open and self.to_come)
        if not moves and self.unnoticed:
            self.gone.append(self.unnoticed.pop(0))
            return self._give_up_first
        assert moves, f"nobody can go on: {self._standing()}"
        return self.random.choice(moves)

    def _standing(self) -> str:
        living = [each for each in self.workers if not each.player.is_ended]
        waits = [f"{each.key} waits for {each.player.waits_for}" for each in living]
        return f"epoch {self.roster.epoch} of {', '.join(self.roster.workers)}; {'; '.join(waits)}"

    @property
    def _is_open(self) -> bool:
        """Nobody is let in before all train, nor once one has come to its end."""
        members = self.members.values()
        return all(each.has_begun for each in members) and not any(each.done for each in members)

    def _let_in(self) -> None:
        name = self.to_come.pop()
        self.incarnations[name] += 1
        sitting = Sitting(seat=_seat(name), incarnation=self.incarnations[name])
        before, self.roster = self.roster.epoch, self.roster.with_sitting(sitting)
        self._announce()
        first = replace(self.roster, epoch=before)  # as it is told before it is one of them
        worker = Worker(self, name, self.incarnations[name], first, is_late=True)
        worker.heard = self.roster
        self.workers.append(worker)

    def _announce(self) -> None:
        for each in self.workers:
            if each.lives:
                each.words.append(self.roster)

    def _give_up_first(self) -> None:
        self.give_up(self.gone.pop(0))

    def give_up(self, name: str) -> None:
        self.roster = self.roster.without(name)
        if name in self.schedule.returns and self.incarnations[name] < 2:
            self.to_come.append(name)
        self._announce()

    def may_die(self, worker: "Worker") -> bool:
        """Never the last one that has parameters."""
        others = [each for each in self.workers if each.lives and each is not worker]
        return worker.is_entering or any(not each.is_entering for each in others)

    def is_missed(self, name: str) -> bool:
        """Whether that one is gone and nobody has noticed: then a channel may."""
        return name in self.unnoticed

    def reported(self, name: str) -> None:
        if name in self.unnoticed:
            self.unnoticed.remove(name)
            self.gone.append(name)


def _seat(name: str) -> Seat:
    return Seat("worker", int(name.removeprefix("worker")), "node0")


class Worker:
    """Does what `engine/worker.py` does with a ring, and nothing else."""

    def __init__(
        self, world: World, name: str, incarnation: int, roster: Roster, *, is_late: bool
    ) -> None:
        self.world, self.name, self.incarnation = world, name, incarnation
        self.key = f"{name}.{incarnation}"
        self.heard = roster
        self.words: deque[Roster] = deque()
        self.box: deque[tuple[int, Message]] = deque()
        self.lives, self.is_cut = True, False
        self.has_begun, self.is_entering = False, is_late
        self.done: tuple[int, Tensor] | None = None
        self.num_taken = 0
        """Up to which of its batches it is."""
        self.channel = FaultyChannel(world, self)
        model = nn.Linear(3, 2, bias=False)
        nn.init.zeros_(model.weight)
        self.place = Place(
            name=name,
            roster=roster,
            replica=Replica(model, torch.float32),
            optimizer=Sgd(lr=RATE, momentum=world.schedule.momentum),
            most_steps=world.schedule.steps,
            open_channel=lambda: self.channel,
            is_late=is_late,
            survives=True,
            most_workers=world.schedule.workers,
            newest_roster=lambda: self.heard,
            next_roster=self._next_roster,
        )
        self.player = Player(self.key, self._train)

    def hear(self) -> None:
        """Hear the next word of the driver; one that is given up hears nothing more."""
        self.heard = self.words.popleft()

    def die(self) -> None:
        """Be killed, or be given up and killed later."""
        world = self.world
        self.lives, self.done = False, None
        self.words.clear()
        if self.key in world.schedule.cut:
            self.is_cut = True
            world.give_up(self.name)
            return
        (world.unnoticed if self.key in world.schedule.silent else world.gone).append(self.name)
        raise Ended

    def strike(self) -> None:
        self.player.end(Ended)

    def _next_roster(self, epoch: int, lost: PeerLost | None) -> Roster:
        if lost is not None:
            self.world.reported(lost.seat)
        self.player.wait(lambda: self.heard.epoch > epoch, f"a roster after epoch {epoch}")
        return self.heard

    def _train(self) -> None:
        member = RingMember(self.place, 1 << 20, check_every=0)
        self.has_begun = True
        if not self.place.is_late:
            self.player.wait(self._all_have_begun, "the start")
        self.channel.arm()
        is_over = member.enter() if self.place.is_late else False
        self.num_taken = member.num_begun
        self.is_entering = False
        while not is_over:
            self.num_taken += 1
            member.begin(last=False)
            self.place.replica.gradients.fill_(1.0)
            last = member.global_steps + 1 >= self.world.schedule.steps
            is_over = member.exchange(last=last)
        self._rest(member)
        member.close()

    def _all_have_begun(self) -> bool:
        return all(each.has_begun for each in self.world.workers if not each.place.is_late)

    def _rest(self, member: RingMember) -> None:
        """Wait for the end; who is met again meanwhile may need what this worker has."""
        looked_at = -1
        while not self.world.is_over:
            if self.lives:
                self.done = member.global_steps, self.place.replica.parameters.clone()
            with contextlib.suppress(RunOver):  # as the word that a run is over ends a wait
                self.player.wait(lambda: self.heard.epoch > looked_at, "the end")  # noqa: B023
                looked_at = self.heard.epoch
                member.regroup()


class FaultyChannel(Channel):
    """A worker's end; each message that it sends or takes is a moment to be killed at."""

    def __init__(self, world: World, worker: Worker) -> None:
        super().__init__()
        self._world, self._worker = world, worker
        self._left: int | None = None
        self._roster = worker.heard

    def arm(self) -> None:
        """Count moments from now on: before training begins, every loss ends a run."""
        self._left = self._world.schedule.kills.get(self._worker.key)

    def _tick(self) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left <= 0 and self._world.may_die(self._worker):
            self._left = None
            self._worker.die()

    def follow(self, roster: Roster) -> None:
        if roster.epoch > self._roster.epoch:
            self._roster = roster

    def _look(self) -> None:
        """Look what the driver said, and whether one that is written to is gone."""
        heard = self._worker.heard
        self.follow(heard)
        self.notice(heard)
        for name in self._roster.workers:
            if self._world.is_missed(name) and self._world.random.random() < _LOOKS:
                raise PeerLost(name, "its connection is closed")

    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        self._tick()
        if self._world.random.random() < _LOOKS:
            self._look()
        kept = values.detach().clone()
        dtype = str(kept.dtype).removeprefix("torch.")
        message = Message(self._worker.name, tag, dtype, tuple(kept.shape), bytes_of(kept))
        sitting = self._roster.by_name.get(to)
        for each in self._world.workers:
            if sitting is not None and (each.name, each.incarnation) == (to, sitting.incarnation):
                each.box.append((self._worker.incarnation, message))

    def receive(self) -> Message:
        self._tick()
        worker = self._worker
        while True:
            if not worker.box or self._world.random.random() < _LOOKS:
                self._look()
            seen = self._roster.epoch
            worker.player.wait(lambda: self._is_there(seen), "a message")  # noqa: B023
            while worker.box:
                incarnation, message = worker.box.popleft()
                if self._is_of_now(message.sender, incarnation):
                    return message

    def _is_there(self, seen: int) -> bool:
        return bool(self._worker.box) or self._worker.heard.epoch > seen

    def _is_of_now(self, sender: str, incarnation: int) -> bool:
        """Whether a message is not of one that was started again since."""
        sitting = self._roster.by_name.get(sender)
        return sitting is None or incarnation >= sitting.incarnation

    def close(self) -> None:
        """Nothing is held."""
