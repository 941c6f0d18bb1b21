"""Everything Paceline raises on purpose.

PacelineError
├── SpecError         invalid settings: every field at once                  (exit code 2)
├── DataError         a data file is missing, corrupt or of the wrong kind   (exit code 2)
├── WorkloadError     a method of a workload gave something else than it must (exit code 2)
├── LoopError         a training loop called its session in the wrong order
├── ScriptFailed      a user's script raised, or ended itself with an exit code
├── NotHere           a run was started from within a seat                   (exit code 2)
├── TooLittleMemory   a limit on address space is too low for a run          (exit code 2)
├── StoreError        a run directory cannot be read or written              (exit code 2)
├── StateError        a saved state is not one, or is that of another run    (exit code 2)
├── WireError         a frame that is not ours
├── Diverged          workers whose parameters must be equal differ
├── NotFinite         gradients that cannot be applied, again and again
├── Changed           parameters were changed by something else than the optimizer
└── RunError          a run that had started did not finish                  (exit code 1)
    ├── SeatFailed    one of its processes raised or died
    ├── NodeMissing   a node of its cluster did not come, or does not fit
    ├── Aborted       told to a seat: another seat failed, or the run is over
    ├── PeerLost      told by a seat: another seat is no longer there
    └── Interrupted   somebody stopped it                                    (exit code 130)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class PacelineError(Exception):
    """Base of every error a user can be expected to read."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One wrong field: where it is, what it held, and what it could have held."""

    field: str
    value: object
    reason: str
    choices: tuple[str, ...] = ()
    traceback: str = ""
    """Where it was raised, if that was in a user's own code; a line of the message has no room."""

    def __str__(self) -> str:
        text = f"{self.field} = {self.value!r}: {self.reason}"
        return f"{text} (choices: {', '.join(self.choices)})" if self.choices else text


def users_traceback(error: BaseException) -> str:
    """Say where in a user's code an error was raised: our own frames above it are left out."""
    import traceback
    from itertools import dropwhile
    from pathlib import Path

    def is_ours(frame: traceback.FrameSummary) -> bool:
        return frame.filename.startswith((f"{Path(__file__).parent}/", "<frozen "))

    frames = list(dropwhile(is_ours, traceback.extract_tb(error.__traceback__)))
    if not frames:
        return ""
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return "Traceback (most recent call last):\n" + "".join(lines).rstrip()


class SpecError(PacelineError):
    """A run was described wrongly; lists every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class DataError(PacelineError):
    """A data set or one of its files cannot be used; the message names the file."""

    exit_code = 2


class WorkloadError(PacelineError):
    """A method of the user's own class gave something else than it must."""

    exit_code = 2

    def __init__(self, where: str, expected: str, got: str) -> None:
        super().__init__(f"{where} must return {expected}; it returned {got}")


class LoopError(PacelineError):
    """A training loop called the methods of its session in the wrong order; says which is next."""


class ScriptFailed(PacelineError):
    """A user's script raised, or ended itself with an exit code; names the script's own line."""


class NotHere(PacelineError):
    """A run was started from within a seat of another run."""

    exit_code = 2


class TooLittleMemory(PacelineError):
    """A process may not have as much address space as any run needs; names the limit."""

    exit_code = 2


class StoreError(PacelineError):
    """A run directory cannot be created, read or written."""

    exit_code = 2


class StateError(PacelineError):
    """A state does not fit what it is loaded into, or cannot be taken; names the field."""

    exit_code = 2

    def __init__(self, field: str, value: str, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field} = {value}: {reason}")

    def within(self, name: str) -> StateError:
        """Say the same of a part, named from the whole on."""
        return StateError(f"{name}.{self.field}", self.value, self.reason)


class WireError(PacelineError):
    """Bytes that arrived are not a frame of ours, or not one we accept."""


class Diverged(PacelineError):
    """Workers that must hold equal parameters do not; names them."""


class NotFinite(PacelineError):
    """A worker's gradients were refused too many times in a row; says what is wrong with them."""


class Changed(PacelineError):
    """Something other than the optimizer changed what is trained; names the parameter."""


class RunError(PacelineError):
    """A run that had started did not reach its end; it is sealed, and `result` tells of it."""

    result: Any = None


class SeatFailed(RunError):
    """A process of the run raised or died; carries the tail of that process's log."""

    def __init__(self, seat: str, reason: str, log_tail: str = "") -> None:
        self.seat = seat
        self.reason = reason
        self.log_tail = log_tail
        super().__init__(f"{seat} failed: {reason}")


class NodeMissing(RunError):
    """A node of the cluster did not come, or is not as it must be; names it."""

    def __init__(self, node: str, reason: str) -> None:
        self.node = node
        self.reason = reason
        super().__init__(f"{node}: {reason}")


class Aborted(RunError):
    """Raised inside a seat when the run cannot go on; names the seat that is the cause."""


class PeerLost(RunError):
    """Raised inside a seat that no longer reaches another; names the one it lost."""

    def __init__(self, seat: str, reason: str) -> None:
        self.seat = seat
        self.reason = reason
        super().__init__(f"{seat} is gone: {reason}")


class Interrupted(RunError):
    """The run was stopped from outside before its end."""

    exit_code = 130
