"""How fast the network interfaces of this machine are, as far as the kernel knows."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

_NETWORK: Final = Path("/sys/class/net")


def faster_than(name: str, folder: Path = _NETWORK) -> str | None:
    """Say which interface is faster than the one of this name; None if none is known to be.

    Only devices that are up and carry traffic of their own are looked at: not bridges and tunnels
    of containers, and not what is part of a bond.
    """
    own = _mbit_per_s(folder / name)
    others = {each.name: _mbit_per_s(each) or 0 for each in folder.iterdir() if _is_device(each)}
    best = max(others, key=lambda each: others[each], default=name)
    if own is None or others.get(best, 0) <= own:
        return None
    return f"{best} has {others[best]:,} Mbit/s, {name} only {own:,} Mbit/s"


def _is_device(interface: Path) -> bool:
    is_alone = (interface / "device").exists() and not (interface / "master").exists()
    return is_alone and _read(interface / "operstate") == "up"


def _mbit_per_s(interface: Path) -> int | None:
    with contextlib.suppress(ValueError):
        speed = int(_read(interface / "speed"))
        return speed if speed > 0 else None
    return None


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):  # the kernel refuses to tell of some
        return path.read_text().strip()
    return ""
