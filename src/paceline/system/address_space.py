"""How much address space a process may have: RLIMIT_AS, which `ulimit -v` sets.

A library that maps more than that may raise an error, end the process, or do nothing for ever. So
what cannot work is refused before anything is started.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from paceline.errors import TooLittleMemory

# A process that has imported torch and trains the smallest workload has mapped nearly as much.
_NEEDED_BYTES: Final = 700_000 << 10
# With as much left, polars and its threads find room on a machine of many cores.
_AMPLE_BYTES: Final = 4 << 30


def limit_bytes() -> int | None:
    """Say how much a process may map; None where there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def is_tight() -> bool:
    """Whether there is a limit, and this process is not far from it."""
    limit = limit_bytes()
    if limit is None:
        return False
    num_pages = int(Path("/proc/self/statm").read_text().split()[0])
    return limit - num_pages * os.sysconf("SC_PAGESIZE") < _AMPLE_BYTES


def remark() -> str | None:
    """Say what the limit is, for somebody who wonders why memory ran out; None without one."""
    limit = limit_bytes()
    if limit is None:
        return None
    return (
        f"each process may have only {limit >> 10:,} kB of address space (RLIMIT_AS); "
        "`ulimit -v` shows and sets this limit"
    )


def check() -> None:
    """Raise `TooLittleMemory` if the limit is too low for any run."""
    limit = limit_bytes()
    if limit is not None and limit < _NEEDED_BYTES:
        raise TooLittleMemory(
            f"a run needs at least {_NEEDED_BYTES >> 10:,} kB of address space, and {remark()}; "
            "nothing was started"
        )
