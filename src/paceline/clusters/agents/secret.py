"""The secret of a run: what its nodes know of each other before they have met."""

from __future__ import annotations

import os
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from paceline.errors import Problem, SpecError
from paceline.system import linux

VARIABLE: Final = "PACELINE_SECRET"
FILE_VARIABLE: Final = "PACELINE_SECRET_FILE"
MAKE: Final = "(umask 077; openssl rand -hex 32 > paceline.secret)"
"""A command that makes a secret."""
_FEWEST: Final = 32
_HOW: Final = (
    f"make one with {MAKE}, copy that file to every machine, and give "
    f"{FILE_VARIABLE}=paceline.secret to the command there"
)


def take_secret(environ: MutableMapping[str, str], why: str) -> str:
    """Read the secret of the run, and remove it, and where it is, from the environment.

    Workers inherit the environment, and a user's code runs in them. Raises `SpecError`, which says
    why a secret is needed if there is none.
    """
    if VARIABLE in environ:
        linux.wipe_variable(VARIABLE)
    given, name = environ.pop(VARIABLE, None), environ.pop(FILE_VARIABLE, None)
    if given is not None and name is not None:
        raise _refused(FILE_VARIABLE, name, f"{VARIABLE} is given too: give one of them")
    if given is not None:
        return _checked(VARIABLE, "(hidden)", given)
    if name is not None:
        return _checked(FILE_VARIABLE, name, _read(Path(name)))
    raise _refused(VARIABLE, None, f"{why}, so a run needs a secret: {_HOW}")


def _read(path: Path) -> str:
    try:
        with path.open() as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                reason = f"others may read it (mode {mode:04o}): chmod 600 {path}"
                raise _refused(FILE_VARIABLE, str(path), reason)
            return file.read(1 << 16)
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(FILE_VARIABLE, str(path), f"cannot be read: {error}; {_HOW}") from error


def _checked(field_name: str, shown: str, text: str) -> str:
    secret = text.strip()
    if len(secret) < _FEWEST:
        reason = f"has {len(secret)} characters, needs at least {_FEWEST}: {_HOW}"
        raise _refused(field_name, shown, reason)
    return secret


def _refused(field_name: str, value: object, reason: str) -> SpecError:
    return SpecError([Problem(field_name, value, reason)])
