"""What seats are called: `worker3` is the worker of rank 3."""

from __future__ import annotations

import re
from typing import Final, Literal, cast

Role = Literal["worker", "server", "monitor"]

MOST_NUMBER: Final = 999_999_999
"""The highest that a seat can have: frames have four bytes for it."""
_NAME: Final = re.compile(r"(worker|server|monitor)(0|[1-9][0-9]{0,8})")


def seat_name(role: Role, index: int) -> str:
    """Name the seat of a role: `worker3`."""
    return f"{role}{index}"


def worker_names(count: int) -> list[str]:
    """Name the workers of a run that has, or had, so many."""
    return [seat_name("worker", index) for index in range(count)]


def server_names(count: int) -> list[str]:
    """Name the servers of a run that has, or had, so many."""
    return [seat_name("server", index) for index in range(count)]


def parsed(name: str) -> tuple[Role, int]:
    """Read a seat's name; raises `ValueError` where it is none."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no seat: worker0, server1, monitor0 are")
    return cast("Role", found[1]), int(found[2])


def role_of(name: str) -> str:
    """Give the role of a seat; of a name that is no seat's, as a stored run may have, the name."""
    found = _NAME.fullmatch(name)
    return name if found is None else found[1]
