"""Threads of which one runs at a time, so that what happens depends on a number only."""

import sys
import threading
import traceback
from collections.abc import Callable

# Only a thread that waits for something else than its turn, which is a fault, takes so long.
_DEADLINE_S = 30.0


class Ended(BaseException):
    """Ends a player wherever it waits, as the end of its process would: nothing is caught."""


class RunOver(Exception):
    """Ends a wait, as the word that a run is over does."""


class Player:
    """A thread that runs until it waits for its next turn, whenever it is given one."""

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.is_ended = False
        self.error: BaseException | None = None
        self.waits_for = "its first turn"
        self._can_go_on: Callable[[], bool] = lambda: True
        self._end: type[BaseException] | None = None
        self._its_turn, self._turn_over = threading.Semaphore(0), threading.Semaphore(0)
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._await_turn()
            self._body()
        except (Ended, RunOver):
            pass
        except BaseException as error:
            self.error = error
        self.is_ended = True
        self._turn_over.release()

    def wait(self, can_go_on: Callable[[], bool], waits_for: str) -> None:
        """Called by its own thread: let others go on until there is what it waits for."""
        self._can_go_on, self.waits_for = can_go_on, waits_for
        self._turn_over.release()
        self._await_turn()

    def _await_turn(self) -> None:
        if not self._its_turn.acquire(timeout=_DEADLINE_S):
            raise TimeoutError(f"{self.name} had no turn, and waits for {self.waits_for}")
        if self._end is not None:
            raise self._end

    @property
    def can_go_on(self) -> bool:
        return not self.is_ended and self._can_go_on()

    def take_turn(self) -> None:
        """Let it run until it waits again, or ends."""
        self._its_turn.release()
        if not self._turn_over.acquire(timeout=_DEADLINE_S):
            frame = sys._current_frames().get(self._thread.ident or 0)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            raise TimeoutError(f"{self.name} does not wait for its turn:\n{stack}")

    def end(self, how: type[BaseException]) -> None:
        """Have each of its waits raise that until it has ended."""
        self._end = how
        while not self.is_ended:
            self.take_turn()
        self._thread.join(_DEADLINE_S)
