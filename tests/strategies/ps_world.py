"""Workers and servers as threads of one process, whose channels can kill them at any message.

The parameters are the ledger: every push of every incarnation of a worker has a place of its own in
each chunk, and its gradient is 1 there and 0 elsewhere. So whoever looks at the parameters sees
which pushes were applied, and how often. One thread runs at a time, and a number says which: a
schedule that fails once fails always. Where none can go on, that is said at once, with what each of
them waits for.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from paceline.comm.base import Channel, Finished, Message, bytes_of
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.errors import PeerLost
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.describe import ParameterServer
from paceline.strategies.parameter_server.link import GREETING
from paceline.strategies.parameter_server.tags import unpack
from paceline.training.optim import Sgd
from paceline.training.replica import Replica
from paceline.training.state import State, copied
from tests.strategies.turns import Ended, Player, RunOver

MOST_LIVES = 3
"""How often a worker may be there: at first, and when it was started again."""
_MOST_TURNS = 20_000
_LOOKS = 0.2


@dataclass
class Schedule:
    """What happens. A moment is a number of messages that a server took or sent."""

    strategy: ParameterServer
    workers: int = 2
    steps: int = 4
    num_chunks: int = 2
    """Of each server. One comes along with its word."""
    kills: dict[str, int] = field(default_factory=dict)
    """At which moment a seat is killed, by `name.incarnation`; never the last living worker."""
    silent: Collection[str] = ()
    """Whose death is noticed only when others miss it, or cannot go on."""
    cut: Collection[str] = ()
    """Which workers are given up at that moment, and go on for a while nevertheless."""
    returns: Collection[str] = ()
    """Workers that are started again once they are gone; servers always are."""
    late: Collection[str] = ()
    """Workers that join while the others train."""
    looked_at: Collection[int] = ()
    """After which of its steps worker 0 looks at the newest parameters, as an evaluation does."""
    keeps: float = 0.3
    """How probable a snapshot is, whenever there may be one."""
    order: int = 0
    """Which of all that could happen next happens, at each turn."""
    most_steps: int | None = None
    """After how many updates the first server ends training, unless all have made their steps."""


class World:
    """The driver, and what carries the messages."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.random = schedule, Random(schedule.order)
        self.num_places = MOST_LIVES * schedule.workers * schedule.steps
        self.strategy = replace(schedule.strategy, chunk_bytes=4 * self.num_places)
        names = [f"worker{index}" for index in range(schedule.workers)]
        self.servers = [f"server{index}" for index in range(schedule.strategy.num_servers)]
        present = [name for name in names if name not in schedule.late]
        self.roster = Roster.of([_seat(name) for name in (*present, *self.servers)])
        self.snapshots: dict[str, list[State]] = {name: [] for name in self.servers}
        """All that each server has kept, in order."""
        self.lost: list[tuple[str, int, int]] = []
        self.sent_again: list[tuple[str, Seated, int]] = []
        """Which server was told by which worker that this push of it comes once more."""
        self.agreed: list[int] = []
        """To which versions all servers went back; -1: to the initial values."""
        self.is_over = False
        self.gone: list[tuple[str, int]] = []
        """Whose end the driver is about to notice."""
        self.unnoticed: list[tuple[str, int]] = []
        self.to_come = [f"{name}.1" for name in names if name in schedule.late]
        self.seats = [Seated(self, name, 0, self.roster) for name in (*present, *self.servers)]

    @property
    def has_one_version(self) -> bool:
        """Whether all servers apply the same pushes: none leaves a worker out, and none dies."""
        strategy, schedule = self.strategy, self.schedule
        is_left_out = any(key.startswith("worker") for key in (*schedule.kills, *schedule.late))
        together = strategy.servers_go_back_together and not getattr(strategy, "backup", 0)
        return together and not is_left_out

    def play(self) -> None:
        """Go on to the end; raises where it does not come."""
        try:
            for _ in range(_MOST_TURNS):
                if self._is_settled:
                    return
                self._choose()()
                for each in self.seats:
                    if each.player.error is not None:
                        raise each.player.error
            raise AssertionError(f"they do not come to their end: {self._standing()}")
        finally:
            self.is_over = True
            for each in self.seats:
                each.player.end(RunOver)

    @property
    def _is_settled(self) -> bool:
        """All workers have come to their end, and every server knows how far each is."""
        found = {key for key, _, _ in self.lost}
        servers = [self.newest(name) for name in self.servers]
        are_here = all(e.lives and (not e.incarnation or e.key in found) for e in servers)
        return are_here and all(e.is_done for e in self.seats if e.is_worker and e.lives)

    def _choose(self) -> Callable[[], None]:
        moves = [each.player.take_turn for each in self.seats if each.player.can_go_on]
        moves += [each.hear for each in self.seats if each.words]
        moves += [each.strike for each in self.seats if each.is_cut and not each.player.is_ended]
        moves += [self._give_up] * bool(self.gone) + [self._let_in] * bool(self._may_come)
        if not moves and self.unnoticed:
            self.gone.append(self.unnoticed.pop(0))
            return self._give_up
        assert moves, f"none can go on: {self._standing()}"
        return self.random.choice(moves)

    def _standing(self) -> str:
        living = [each for each in self.seats if not each.player.is_ended]
        return "; ".join(f"{each.key} waits for {each.player.waits_for}" for each in living)

    @property
    def _may_come(self) -> list[str]:
        """Servers; and workers while these are there, until one has come to its end."""
        has_servers = len(self.roster.servers) == len(self.servers)
        is_open = has_servers and not any(each.is_done for each in self.seats)
        return [each for each in self.to_come if is_open or each.startswith("server")]

    def _give_up(self) -> None:
        self.give_up(*self.gone.pop(0))

    def give_up(self, name: str, incarnation: int) -> None:
        self._take_out(name, incarnation)
        if name in self.servers and self.strategy.servers_go_back_together:
            self.to_come = [each for each in self.to_come if not each.startswith("server")]
            for each in self.servers:
                self._end_with_it(self.newest(each))
        self._announce()

    def _end_with_it(self, server: "Seated") -> None:
        """End a server, whether it trains or dies just now, and have it started again."""
        server.lives = False
        server.words.clear()
        server.player.end(Ended)
        gone = (server.name, server.incarnation)
        self.gone = [each for each in self.gone if each != gone]
        self.unnoticed = [each for each in self.unnoticed if each != gone]
        if server.name in self.roster.by_name:
            self.roster = self.roster.without(server.name)
        self.to_come.append(f"{server.name}.{server.incarnation + 1}")

    def _take_out(self, name: str, incarnation: int) -> None:
        self.roster = self.roster.without(name)
        is_worker_again = name in self.schedule.returns and incarnation + 1 < MOST_LIVES
        if name in self.servers or is_worker_again:
            self.to_come.append(f"{name}.{incarnation + 1}")

    def _let_in(self) -> None:
        key = self._may_come[0]
        keys = [key]
        if key.startswith("server") and self.strategy.servers_go_back_together:
            keys = [each for each in self.to_come if each.startswith("server")]
            self._agree()
        sittings = [self._sit(each) for each in keys]
        self._announce()
        for each in sittings:
            self.seats.append(Seated(self, each.name, each.incarnation, self.roster))

    def _agree(self) -> None:
        """Leave each server the newest version that all have."""
        versions = [[_version(each) for each in kept] for kept in self.snapshots.values()]
        common = max(set.intersection(*map(set, versions)), default=-1)
        self.agreed.append(common)
        for name, kept in self.snapshots.items():
            self.snapshots[name] = [each for each in kept if _version(each) <= common]

    def _sit(self, key: str) -> Sitting:
        self.to_come.remove(key)
        name, _, incarnation = key.partition(".")
        sitting = Sitting(seat=_seat(name), incarnation=int(incarnation))
        self.roster = self.roster.with_sitting(sitting)
        return sitting

    def may_die(self, seat: "Seated") -> bool:
        """Never the last worker that has parameters."""
        others = [each for each in self.seats if each.lives and each.is_worker and each is not seat]
        return not seat.is_worker or any(not each.is_entering for each in others)

    def missed(self, name: str) -> bool:
        """Whether that one is gone and the driver does not know."""
        return any(each == name for each, _ in self.unnoticed)

    def reported(self, lost: PeerLost) -> None:
        for each in [each for each in self.unnoticed if each[0] == lost.seat]:
            self.unnoticed.remove(each)
            self.gone.append(each)

    def _announce(self) -> None:
        for each in self.seats:
            if each.lives:
                each.words.append(self.roster)

    def newest(self, name: str) -> "Seated":
        return [each for each in self.seats if each.name == name][-1]

    def applied(self) -> Tensor:
        """How often each push was applied: a row of each chunk, a column of each push."""
        parts = []
        for name in self.servers:
            keep = self.newest(name).server.application.keep
            parts += [view.clone() for view in keep._views]
        return -torch.stack(parts)


def _version(snapshot: Any) -> int:
    return snapshot["version"]


def _seat(name: str) -> Seat:
    return Seat("worker" if name.startswith("worker") else "server", int(name[6:]), "node0")


class Seated:
    """Does what `engine/worker.py` and `engine/serving.py` do, and nothing else."""

    server: Any = None

    def __init__(self, world: World, name: str, incarnation: int, roster: Roster) -> None:
        self.world, self.name, self.incarnation = world, name, incarnation
        self.key = f"{name}.{incarnation}"
        self.is_worker = name.startswith("worker")
        self.heard, self.words = roster, deque[Roster]()
        self.box: deque[tuple[int, Message]] = deque()
        self.lives, self.is_done, self.is_cut = True, False, False
        self.is_entering = self.is_worker and incarnation > 0
        self.num_steps = 0
        """How many of its pushes were answered."""
        self.staleness: list[int] = []
        num_chunks = world.schedule.num_chunks * len(world.servers)
        model = nn.Linear(world.num_places * num_chunks, 1, bias=False)
        nn.init.zeros_(model.weight)
        self.place = Place(
            name=name,
            roster=roster,
            replica=Replica(model, torch.float32),
            optimizer=Sgd(lr=1.0),
            most_steps=world.schedule.most_steps,
            open_channel=lambda: FaultyChannel(world, self),
            is_late=self.is_entering,
            survives=True,
            may_start_again=True,
            servers_return=True,
            all_servers=len(world.servers),
            most_workers=world.schedule.workers,
            newest_roster=lambda: self.heard,
            next_roster=self._next_roster,
            say_lost=world.reported,
            keep_snapshot=self._keep,
            say_restored=lambda version, lost: world.lost.append((self.key, version, lost)),
        )
        self.player = Player(self.key, self._work if self.is_worker else self._serve)

    def hear(self) -> None:
        self.heard = self.words.popleft()

    def die(self) -> None:
        """Be killed, or be given up and killed later."""
        world, schedule = self.world, self.world.schedule
        self.lives = False
        self.words.clear()
        if self.is_worker and self.key in schedule.cut:
            self.is_cut = True
            world.give_up(self.name, self.incarnation)
            return
        gone = world.unnoticed if self.key in schedule.silent else world.gone
        gone.append((self.name, self.incarnation))
        raise Ended

    def strike(self) -> None:
        self.player.end(Ended)

    def _next_roster(self, epoch: int, lost: PeerLost | None) -> Roster:
        if lost is not None:
            self.world.reported(lost)
        self.player.wait(lambda: self.heard.epoch > epoch, f"a roster after epoch {epoch}")
        return self.heard

    def _keep(self, state: State) -> bool:
        if self.world.random.random() < self.world.schedule.keeps:
            self.world.snapshots[self.name].append(copied(state))
        return True

    def _serve(self) -> None:
        strategy = self.world.strategy
        self.server = strategy.server(self.place)
        self.server._place.channel  # noqa: B018 - open before anyone writes
        if self.incarnation:
            kept = self.world.snapshots[self.name]
            self.server.come_back(copied(kept[-1]) if kept else None)
        self.server.run()

    def _work(self) -> None:
        strategy = self.world.strategy
        member = strategy.join(self.place)
        gradients = self.place.replica.gradients
        is_over = member.enter() if self.is_entering else not member.starts
        self.is_entering = False
        while not is_over:
            member.begin(last=False)
            self._check_bound()
            self._check_version()
            gradients.zero_()
            gradients.view(-1, self.world.num_places)[:, self.place_of(self.num_steps)] = 1.0
            last = self.num_steps + 1 >= self.world.schedule.steps
            is_over = member.exchange(last=last)
            self.num_steps += 1
            if self.place.rank == 0 and self.num_steps in self.world.schedule.looked_at:
                member.settle()
        self.is_done = True
        looked_at = -1
        while not self.world.is_over:
            self.player.wait(lambda: self.heard.epoch > looked_at, "the end")  # noqa: B023
            looked_at = self.heard.epoch
            member.regroup()

    def place_of(self, step: int) -> int:
        """Which place of each chunk is that of a push."""
        schedule = self.world.schedule
        life = self.incarnation * schedule.workers + self.place.rank
        return life * schedule.steps + step

    def _check_version(self) -> None:
        """Servers that go back together, and average over all, give parameters of one version."""
        if self.world.has_one_version:
            chunks = self.place.replica.parameters.view(-1, self.world.num_places)
            assert bool((chunks == chunks[0]).all()), f"{self.key} has parameters of two versions"

    def _check_bound(self) -> None:
        """No worker may be further ahead of the slowest than its strategy says.

        Who joined others that trained is as far as the slowest of them, and counts anew.
        """
        bound = getattr(self.world.schedule.strategy, "staleness", None)
        first = [e for e in self.world.seats if e.is_worker and not e.incarnation]
        others = [each for each in first if each.lives and not each.is_done]
        if bound is not None and self in others:
            slowest = min(each.num_steps for each in others)
            assert self.num_steps - slowest <= bound + 1  # which may not know that it made one more


class FaultyChannel(Channel):
    """A seat's end; each message that a server sends or takes is a moment to be killed at."""

    def __init__(self, world: World, seat: Seated) -> None:
        super().__init__()
        self._world, self._seat = world, seat
        self._left = world.schedule.kills.get(seat.key)
        self._roster = seat.heard
        """It may be newer than that of its seat's place."""
        self._least: dict[str, int] = {}
        """Of which incarnation of a seat messages are taken, at least."""
        self._expect(seat.heard)

    def _tick(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0 and self._world.may_die(self._seat):
                self._left = None
                self._seat.die()

    def follow(self, roster: Roster) -> None:
        if roster.epoch <= self._roster.epoch:
            return
        self._roster = roster
        self._expect(roster)

    def _expect(self, roster: Roster) -> None:
        self._least |= {name: last + 1 for name, last in roster.gone.items()}
        self._least |= {each.name: each.incarnation for each in roster.sittings}

    def _look(self) -> None:
        """Look what the driver said, and whether one of the other kind is gone."""
        self.follow(self._seat.heard)
        self.notice(self._seat.heard)
        if self._world.is_over and not self._seat.is_worker:
            raise Finished
        others = self._roster.servers if self._seat.is_worker else self._roster.workers
        for name in others:
            if self._world.missed(name) and self._world.random.random() < _LOOKS:
                raise PeerLost(name, "its connection is closed")

    def send(self, to: str, values: Tensor, tag: int = 0) -> None:
        self._tick()
        if self._seat.is_worker and self._world.random.random() < _LOOKS:
            self._look()
        if to not in self._roster.by_name:
            if not self._seat.is_worker:
                return
            raise PeerLost(to, "it has left the run")
        if self._seat.is_worker and unpack(tag).flags & GREETING and values[1]:
            key = f"{to}.{self._roster.by_name[to].incarnation}"
            self._world.sent_again.append((key, self._seat, self._seat.num_steps))
        kept = values.detach().clone()
        dtype = str(kept.dtype).removeprefix("torch.")
        message = Message(self._seat.name, tag, dtype, tuple(kept.shape), bytes_of(kept))
        incarnation = self._roster.by_name[to].incarnation
        for each in self._world.seats:
            if (each.name, each.incarnation) == (to, incarnation) and each.lives:
                each.box.append((self._seat.incarnation, message))

    def receive(self) -> Message:
        self._tick()
        seat = self._seat
        while True:
            if not seat.box or self._world.random.random() < _LOOKS:
                self._look()
            seen = self._roster.epoch
            seat.player.wait(
                lambda: bool(seat.box) or seat.heard.epoch > seen,  # noqa: B023
                "a message",
            )
            while seat.box:
                incarnation, message = seat.box.popleft()
                if incarnation >= self._least.get(message.sender, 0):
                    self._least[message.sender] = incarnation
                    return message

    def incarnation_of(self, sender: str) -> int:
        return self._least.get(sender, 0)

    def close(self) -> None:
        """Nothing is held."""
