"""A shared library that is loaded while Python still imports other things.

A sixth of what importing torch takes is the loader's, which needs no Python: where it begins first,
most of that is hidden. Python finds the library loaded then, or loads it by itself.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from pathlib import Path
from typing import final


@final
class Preloading:
    """Loads a library in a thread, from now on."""

    def __init__(self, package: str, library: str) -> None:
        """`library` is its path within the package, which is not imported."""
        place = _folder_of(package)
        self._thread: threading.Thread | None = None
        if place is not None:
            self._thread = threading.Thread(target=_load, args=[place / library])
            self._thread.start()

    def wait(self) -> None:
        """Wait for its end: no thread survives a fork. Idempotent."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _folder_of(package: str) -> Path | None:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None


def _load(path: Path) -> None:
    """Load it, and leave errors to the import.

    `CDLL(path)` would hold Python's lock all the while; a foreign function is called without.
    """
    libc = ctypes.CDLL(None)
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_LOCAL)
