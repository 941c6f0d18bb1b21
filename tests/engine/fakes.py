"""A run without a process: lines in memory, a clock that the test moves, seats that follow the
protocol one act at a time, and check that the conductor does.
"""

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.clusters.base import Departure
from paceline.comm import monitor_words, words
from paceline.comm.keepsakes import Copy
from paceline.comm.line import Garbled, Line, LineClosed
from paceline.comm.roster import Roster, Seat
from paceline.comm.words import Word
from paceline.engine.again import Beginning, NextAttempt
from paceline.engine.conductor import Conductor
from paceline.engine.departures import DeparturePolicy
from paceline.engine.ensemble import RunToLead
from paceline.outcome.accounts import ServerAccount, WorkerAccount
from paceline.outcome.outcome import Outcome
from paceline.spec import RunSpec
from paceline.store.checkpoints import seat_state
from paceline.store.runs import RunDir
from paceline.strategies.base import Member, Place, Strategy
from paceline.workloads.order import Order


class Scattered(Strategy):
    """Workers that need nobody else: any may come and go."""

    @property
    def name(self) -> str:
        return "tests.engine.fakes:Scattered"

    @property
    def survives_workers(self) -> bool:
        return True

    def join(self, place: Place) -> Member:
        raise NotImplementedError


class InStep(Strategy):
    """Workers of which each needs all others in every step, and which take in who comes."""

    @property
    def name(self) -> str:
        return "tests.engine.fakes:InStep"

    @property
    def in_step(self) -> bool:
        return True

    @property
    def survives_workers(self) -> bool:
        return True

    def join(self, place: Place) -> Member:
        raise NotImplementedError


SPEC = RunSpec.from_table(
    {"workload": "logistic-mnist", "steps": 100, "stuck_s": 60.0, "eval_every": 10}
)
APART = RunSpec(
    workload=SPEC.workload,
    strategy=Scattered(),
    num_workers=3,
    steps=100,
    eval_every=10,
    on_failure="go-on",
)
ORDER = Order(num_rows=50, num_workers=2, batch=10, seed=3)

# Which phases a monitor may be told of after another.
FOLLOWING = {
    "starting": ("training",),
    "training": ("evaluating", "saving", "ending"),
    "saving": ("evaluating", "ending"),
    "evaluating": ("training", "saving", "ending"),
    "ending": (),
}


class FakeClock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakeLine(Line):
    """The driver's end of a line whose other end is the test."""

    def __init__(self, hear: Callable[[Word], None] | None = None, *, reads_ahead: bool = False):
        """`reads_ahead`: once a word is taken the descriptor is silent, as that of a stream is
        whose bytes have all been read."""
        self.told: list[Word] = []
        self._hear = hear or self._note
        self._reads_ahead = reads_ahead
        self._said: deque[Word | Exception] = deque()
        self._is_gone = False
        self._ready = os.eventfd(0, os.EFD_NONBLOCK)

    def say(self, *said: Word | Exception) -> None:
        """What the seat says; an error is raised for what nobody could read."""
        self._said += said
        os.eventfd_write(self._ready, 1)

    def leave(self) -> None:
        self._is_gone = True
        os.eventfd_write(self._ready, 1)

    def fileno(self) -> int:
        return self._ready

    def send(self, word: Word) -> None:
        self._hear(word)

    def _note(self, word: Word) -> None:
        if self._is_gone:
            raise LineClosed
        self.told.append(word)

    def offer(self, word: Word) -> None:
        self.send(word)

    def receive(self, timeout_s: float | None = None) -> Word | None:
        assert timeout_s == 0, "the driver never waits for one seat"
        if not self._said:
            if self._is_gone:
                raise LineClosed
            return None
        word = self._said.popleft()
        if self._reads_ahead or not (self._said or self._is_gone):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._ready)
        if isinstance(word, Exception):
            raise word
        return word

    def finish(self) -> None:
        self.leave()

    def forsake(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._ready >= 0:
            os.close(self._ready)
            self._ready = -1


def totals(steps: int = 10, **others: Any) -> WorkerAccount:
    """What a worker says when it has trained."""
    known = {"train_s": 2.0, "worker_steps": steps, "samples": 10 * steps}
    return WorkerAccount(**{**known, "final_loss": 0.5, "refused": 0, **others})


@dataclass
class FakeSeat:
    """One seat's process: does what `engine/worker.py` does, an act at a time.

    What the driver tells it is checked when it is told.
    """

    seat: Seat
    stage: "Stage"
    incarnation: int = 0
    gates_left: int = 1
    state: str = "new"
    done: int = 0
    wants_last: bool = False
    ends_here: bool = False
    errand: Word | None = None
    roster: Roster | None = None
    unwritten: Copy | None = None
    phase: str = "starting"
    notes: list[str] = field(default_factory=list)
    enters: bool = False
    is_let_go: bool = False
    is_aborted: bool = False

    def __post_init__(self) -> None:
        self.line = FakeLine(self.hear)

    @property
    def name(self) -> str:
        return self.seat.name

    @property
    def is_here(self) -> bool:
        return self.state != "gone"

    @property
    def is_late(self) -> bool:
        """Whether nobody waits for it: it is gone, or has not begun since it was started again."""
        has_begun = self.state not in ("new", "here", "joined") and not self.enters
        return not self.is_here or (self.incarnation > 0 and not has_begun)

    @property
    def rests(self) -> bool:
        return self.state in ("resting", "attending")

    def hear(self, word: Word) -> None:
        """Hear a word, and check that it is one for this moment."""
        stage = self.stage
        assert stage.is_current(self), f"{self.name} was told {word} after it had left"
        if not self.is_here:
            raise LineClosed
        assert not self.is_aborted, f"{self.name} was told {word} after it was told to leave"
        stage.told.append((self.name, word))
        match word:
            case words.Members(roster):
                assert self.roster is None or roster.epoch > self.roster.epoch
                self.roster = roster
            case words.Start(is_late=is_late):
                assert self.state == "joined"
                assert is_late == (self.incarnation > 0)
                is_free = stage.errand_of is None or self.seat.role == "server"
                assert is_free, "training begins while somebody evaluates"
                self.state = "training" if self.seat.role == "worker" else "serving"
                self.enters = is_late
            case words.Settle():
                assert self.rests
                assert self.errand is None, "asked to settle twice at once"
                stage.assert_all_rest()
                self.errand = word
            case words.Keep():
                assert self.rests or self.state == "serving"
                assert self.errand is None, "asked to copy twice at once"
                stage.assert_all_rest()
                self.errand = word
            case words.Evaluate() | words.Save():
                assert stage.errand_of is None, "two are asked at once, or some have not settled"
                assert self.rests
                stage.assert_all_rest(all_trained=isinstance(word, words.Save))
                self.errand = word
            case words.Resume(stop=stop):
                assert self.state == "resting", "resumed twice"
                assert stage.errand_of is None, "training goes on while somebody evaluates"
                self.state, self.ends_here = "training", stop
            case words.Stop():
                self.wants_last = True
            case words.RestAt(progress):
                assert self.state == "training"
                assert progress > 0
                self.gates_left = max(1, self.gates_left)
            case words.Finish():
                assert all(each.state == "attending" or each.is_late for each in stage.workers)
                self.is_let_go = True
            case words.Abort():
                self.is_aborted = True
            case monitor_words.Observe():
                assert self.state == "joined"
                self.state, self.notes = "watching", ["starting"]
            case monitor_words.Enter(phase=phase):
                assert phase in FOLLOWING[self.phase], f"{phase} after {self.phase}"
                self.phase = phase
                self.notes.append(phase)

    @property
    def can_act(self) -> bool:
        """Whether it has something to do, and does not only wait for a word."""
        if not self.is_here:
            return False
        if self.is_aborted or self.is_let_go or self.errand is not None or self.notes:
            return True
        if self.unwritten is not None:
            return True
        return self.state in ("new", "training") or (self.state == "here" and bool(self.roster))

    def act(self) -> None:
        """Do the next thing."""
        if self.is_aborted:
            self.leave("exit code 3")
        elif self.notes:
            self.line.say(monitor_words.Noted(self.notes.pop(0)))  # type: ignore[arg-type]
        elif self.errand is not None:
            self._run_errand()
        elif self.unwritten is not None:
            self._write()
        elif self.is_let_go and self.state not in ("new", "here"):
            if self.seat.role == "server":
                self.line.say(words.Served(ServerAccount(updates=1)))
            self.leave("")
        elif self.state == "new":
            self.state = "here"
            self.line.say(words.Here(pid=100 + self.seat.index, address=f"a{self.incarnation}"))
        elif self.state == "here":
            self.state = "joined"
            self.line.say(words.Joined(data="rows"))
        else:
            self._step()

    def _run_errand(self) -> None:
        errand, self.errand = self.errand, None
        match errand:
            case words.Settle():
                self.line.say(words.Settled())
            case words.Save():
                self.line.say(words.Saved())
            case words.Keep(what=what):
                self.line.say(words.Copied(what))
                self.unwritten = what
            case _:
                self.line.say(words.Evaluated({"loss": 1.0}))

    def _write(self) -> None:
        what, self.unwritten = self.unwritten, None
        path = seat_state(self.stage.run_dir.arriving, self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"state")
        digest = hashlib.sha256(b"state").hexdigest()
        self.line.say(words.Kept(what=what, num_bytes=5, digest=digest))

    def _step(self) -> None:
        if self.enters:
            self.enters = False
            self.line.say(words.Entered())
            return
        self.done += 0 if self.ends_here else 10
        if self.gates_left and not (self.wants_last or self.ends_here):
            self.gates_left -= 1
            self.state = "resting"
            self.line.say(words.Paused(self.done))
        else:
            self.state = "attending"
            self.line.say(words.Trained(totals(self.done)))

    def fail(self, error: str = "ValueError: x") -> None:
        """Say what is wrong, and leave."""
        self.line.say(words.Failed(error))
        self.leave("exit code 1")

    def lose(self, other: str) -> None:
        """Say that another cannot be reached, and leave."""
        self.line.say(words.Lost(other, f"{self.name} lost the connection to it"))
        self.leave("exit code 3")

    def garble(self) -> None:
        self.line.say(Garbled("it said what is never said there"))
        self.leave("exit code 1")

    def leave(self, reason: str) -> None:
        """Its process ends; the driver hears of it when the stage delivers it."""
        self.state = "gone"
        self.errand = None
        self.line.leave()
        self.stage.departed.append(Departure(self.name, reason, self.incarnation))


class Stage:
    """A conductor, its seats, and the order in which things happen."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        servers: int = 0,
        monitors: int = 0,
        gates: int = 1,
        policy: DeparturePolicy | None = None,
        can_restart: bool = True,
        spec: RunSpec = SPEC,
        strike: Callable[[Word], None] = lambda _: None,
        nodes: int = 1,
        again: NextAttempt | None = None,
    ) -> None:
        seats = [Seat("worker", index, f"node{index % nodes}") for index in range(workers)]
        seats += [Seat("server", index, "node0") for index in range(servers)]
        seats += [Seat("monitor", index, "node0") for index in range(monitors)]
        self.now = FakeClock()
        self.told: list[tuple[str, Word]] = []
        self.departed: list[Departure] = []
        self.seats = {
            each.name: FakeSeat(each, self, gates_left=gates if each.role == "worker" else 0)
            for each in seats
        }
        self.past: list[FakeSeat] = []
        self._heard_of: set[tuple[str, int]] = set()
        self._can_restart = can_restart
        self.run_dir = RunDir(folder)
        self.outcome = Outcome(status="failed", reason="it did not finish")
        Beginning(after=again).note(self.outcome)
        run = RunToLead(
            spec=spec,
            order=ORDER,
            lines={name: each.line for name, each in self.seats.items()},
            seats=seats,
            run_dir=self.run_dir,
            outcome=self.outcome,
            began_s=self.now.now_s,
            restart=self.restart,
            strike=strike,
            policy=policy,
            faults=spec.fault,
            again=again,
            now=self.now,
        )
        self.conductor = Conductor(run)

    def restart(self, name: str, incarnation: int) -> Line | None:
        if not self._can_restart:
            return None
        before = self.seats[name]
        self.past.append(before)
        self.seats[name] = FakeSeat(before.seat, self, incarnation, gates_left=0)
        return self.seats[name].line

    def close(self) -> None:
        for each in (*self.seats.values(), *self.past):
            each.line.close()

    @property
    def workers(self) -> list[FakeSeat]:
        return [each for each in self.seats.values() if each.seat.role == "worker"]

    @property
    def errand_of(self) -> str | None:
        """Who has been asked to settle, to evaluate or to save, and is not done."""
        return next((each.name for each in self.workers if each.errand is not None), None)

    def is_current(self, seat: FakeSeat) -> bool:
        """Whether the driver may say anything to it: it has not heard that it is gone."""
        is_known_gone = (seat.name, seat.incarnation) in self._heard_of
        return self.seats[seat.name] is seat and not is_known_gone

    def assert_all_rest(self, *, all_trained: bool = False) -> None:
        for each in self.workers:
            wanted = each.state == "attending" if all_trained else each.rests
            assert wanted or each.is_late, f"{each.name} is {each.state}"

    def acting(self) -> list[FakeSeat]:
        return [each for each in self.seats.values() if each.can_act]

    def deliver(self) -> None:
        """Do as the driver's loop does: hear what was said, then who has left."""
        self.conductor.attend(0)
        self.hear_departures()

    def hear_departures(self) -> None:
        departed, self.departed = self.departed, []
        for each in departed:
            self.conductor.left(each)
            self._heard_of.add((each.seat, each.incarnation))

    def play(self, choose: Callable[[int], int] = lambda _: 0) -> None:
        """Go on to the end; `choose` picks who acts next, of so many that could."""
        for _ in range(500):
            self.deliver()
            if self.conductor.is_over:
                return
            acting = self.acting()
            if acting:
                acting[choose(len(acting))].act()
            else:
                self.now.now_s += 1.0
        raise AssertionError(f"no end: {[(e.name, e.state) for e in self.seats.values()]}")

    def play_until(self, is_there: Callable[[], bool]) -> None:
        """Go on, always the first that can act, until something is so."""
        for _ in range(500):
            self.deliver()
            if is_there():
                return
            self.acting()[0].act()
        raise AssertionError("it never came")

    def told_to(self, name: str, *kinds: type[Word]) -> list[Word]:
        return [word for seat, word in self.told if seat == name and isinstance(word, kinds)]


def begun(folder: Path, **options: Any) -> Stage:
    """A stage whose workers all train, and have said nothing since."""
    stage = Stage(folder, **options)
    stage.play_until(lambda: all(each.state == "training" for each in stage.workers))
    return stage
