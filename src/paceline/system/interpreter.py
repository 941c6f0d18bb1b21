"""How a process of our own is started, and where it finds modules.

`python -m` puts the current folder before the standard library: a `random.py` that somebody keeps
there would be imported in its place, by torch too. Our processes are started with `-P`, which
leaves it out. `PYTHONPATH` is the user's own word, and is heard.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

# Our package comes last: where it was found through the folder that `-P` leaves out, as in a
# checkout that is not installed, it is found all the same, and covers nothing.
_START: Final = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); module = sys.argv.pop(1); "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def own_command(module: str, *arguments: str) -> list[str]:
    """Give the command that runs a module of ours in a process of its own."""
    root = Path(__file__).resolve().parent.parent
    return [sys.executable, "-P", "-c", _START, str(root), module, *arguments]


def safe_path() -> list[str]:
    """Say where modules are found, for a process of ours.

    As here, but the standard library comes before the folder of a script, or the current one.
    """
    end = _end_of_standard_library()
    told = {os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH100 - as Python itself makes them absolute
    first = [each for each in sys.path[:end] if each in told or _is_standard(each)]
    return [*first, *(each for each in sys.path[:end] if each not in first), *sys.path[end:]]


def find_below(folder: Path) -> None:
    """Have modules of a folder found: before those that are installed, behind the standard library.

    A neighbour of a user's file is found by its name, and none takes the place of `random`.
    """
    end, name = _end_of_standard_library(), str(folder)
    if name not in sys.path[: end + 1]:
        sys.path[:] = [*sys.path[:end], name, *(each for each in sys.path[end:] if each != name)]


def _end_of_standard_library() -> int:
    places = [index for index, each in enumerate(sys.path) if _is_standard(each)]
    return max(places, default=-1) + 1


def _is_standard(place: str) -> bool:
    kept = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return place in kept or Path(place).name == "lib-dynload" or place.endswith(".zip")
