"""How the driver has a checkpoint made: all copy and go on, what they write is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, final

from paceline.comm import words
from paceline.comm.words import Word
from paceline.engine.agenda import Agenda
from paceline.engine.ledger import Ledger
from paceline.engine.oddities import Odd
from paceline.errors import StoreError
from paceline.outcome.outcome import Outcome
from paceline.store.checkpoints import FileSum, Manifest, as_rows, clear_arriving, complete
from paceline.store.runs import RunDir

# How long training stands still for a checkpoint: who needs longer waits for what never comes.
_LONGEST_S: Final = 60.0

TOO_OFTEN: Final = (
    "a checkpoint was due while the one before was still being written, and was left out"
)
SERVER_AWAY: Final = "a checkpoint was due while a server was away, and was left out"


def manifest_of(workers: Sequence[str], progress: int, ledger: Ledger, agenda: Agenda) -> Manifest:
    """Say what a checkpoint is of that workers make who rest at a progress."""
    return Manifest(
        progress=progress,
        time_s=ledger.time_s,
        num_workers=len(workers),
        first=workers[0],
        seats={},
        evaluations=as_rows(ledger.outcome.evaluations),
        next_evaluation=agenda.next_evaluation,
    )


@final
class Keeping:
    """One checkpoint at a time: the next one waits until all of the last is written.

    Workers copy before servers: one that is held back asks its servers first how it stands. What a
    seat that is gone did not write makes the checkpoint one that never was.
    """

    def __init__(
        self,
        run_dir: RunDir,
        tell: Callable[[str, Word], None],
        *,
        outcome: Outcome,
        warn: Callable[[str], None],
        num_kept: int,
        now: Callable[[], float],
    ) -> None:
        self._run_dir = run_dir
        self._tell = tell
        self._outcome = outcome
        self._warn = warn
        self._now = now
        self._began_s = 0.0
        self._num_kept = num_kept
        self._manifest: Manifest | None = None
        self._then: Callable[[], None] | None = None
        self._servers: list[str] = []
        self._overdue: set[str] = set()
        """Seats whose copy training does not wait for any more."""
        self._copying: set[str] = set()
        self._writing: set[str] = set()
        self._paused_s = 0.0

    @property
    def is_free(self) -> bool:
        """Whether nothing of an earlier checkpoint is still to come."""
        return not self._writing

    @property
    def working(self) -> set[str]:
        """Seats that everyone waits for."""
        return set(self._copying)

    def begin(
        self,
        manifest: Manifest,
        *,
        workers: Sequence[str],
        servers: Sequence[str],
        then: Callable[[], None],
        paused_s: float = 0.0,
    ) -> None:
        """All workers rest: have everyone copy its state, and `then` go on.

        Clocks leave out `paused_s` before they are copied.
        """
        clear_arriving(self._run_dir)
        self._paused_s = paused_s
        self._began_s = self._now()
        self._manifest, self._then = manifest, then
        self._servers = list(servers)
        self._writing = {*workers, *servers}
        self._ask(workers)

    def _ask(self, names: Sequence[str]) -> None:
        self._copying = set(names)
        for index, name in enumerate(names):
            word = words.Keep(what="state", is_first=index == 0, paused_s=self._paused_s)
            self._tell(name, word)

    def copied(self, name: str) -> None:
        """A seat has copied its state."""
        if name in self._overdue:
            self._overdue.discard(name)
            return
        if name not in self._copying:
            raise Odd.out_of_turn(words.Copied)
        self._copying.discard(name)
        self._go_on()

    def attend(self) -> None:
        """Have training go on without a checkpoint, if seats take too long to copy."""
        if self._then is None or self._now() - self._began_s <= _LONGEST_S:
            return
        late = ", ".join(sorted(self._copying))
        self._drop(f"{late} had not copied its state after {_LONGEST_S:.0f} s")
        self._overdue |= self._copying
        self._writing -= {*self._servers}  # which were not asked yet
        self._copying, self._servers = set(), []
        self._go_on()

    def _go_on(self) -> None:
        if self._copying or self._then is None:
            return
        if self._servers:
            servers, self._servers = self._servers, []
            self._ask(servers)
            return
        then, self._then = self._then, None
        self._outcome.checkpoint_s += self._now() - self._began_s
        then()

    def kept(self, name: str, word: words.Kept) -> None:
        """A seat has written its copy, or cannot."""
        if name not in self._writing or name in self._copying | self._overdue:
            raise Odd.out_of_turn(words.Kept)
        self._writing.discard(name)
        if word.problem:
            self._drop(f"{name} could not write its state: {word.problem}")
        elif self._manifest is not None:
            written = FileSum(num_bytes=word.num_bytes, digest=word.digest)
            seats = {**self._manifest.seats, name: written}
            self._manifest = replace(self._manifest, seats=seats)
        if not self._writing:
            self._complete()

    def forget(self, name: str) -> None:
        """A seat is gone, or was started again: it writes nothing of this any more."""
        if name in self._writing:
            self._writing.discard(name)
            self._drop(f"{name} was lost before it had written its state")
        self._copying.discard(name)
        self._overdue.discard(name)
        if name in self._servers:
            self._servers.remove(name)
        self._go_on()

    def _drop(self, reason: str) -> None:
        if self._manifest is not None:
            self._warn(f"no checkpoint at {self._manifest.progress}: {reason}")
            self._manifest = None

    def _complete(self) -> None:
        manifest, self._manifest = self._manifest, None
        if manifest is None:
            return
        try:
            complete(self._run_dir, manifest, self._num_kept)
            self._outcome.num_checkpoints += 1
        except (OSError, StoreError) as error:
            self._warn(f"no checkpoint at {manifest.progress}: {error}")
