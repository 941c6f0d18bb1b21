"""Which versions run on a node, and whether they fit: a run is one program on all of them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final

_PACKAGES: Final = ("paceline", "torch")


def own_versions() -> dict[str, str]:
    """Give those that must be the same everywhere, without what torch was built for."""
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    return {**versions, "python": ".".join(platform.python_version_tuple()[:2])}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def differences(theirs: Mapping[str, str]) -> Iterator[str]:
    """Say which of a node's versions are not the driver's own."""
    for name, mine in own_versions().items():
        if theirs.get(name) != mine:
            yield f"it has {_told(name, theirs)}, the driver {mine}"


def _told(name: str, versions: Mapping[str, str]) -> str:
    return f"{name} {versions[name]}" if name in versions else f"no {name}"
