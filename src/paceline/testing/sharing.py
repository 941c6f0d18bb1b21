"""One process that has imported torch, for all runs of the checks in one test process."""

from __future__ import annotations

import atexit
from functools import cache

from paceline.clusters.zygote import Zygote


@cache
def shared_zygote() -> Zygote:
    """Give the zygote that all checks share; it ends with the tests."""
    zygote = Zygote()
    atexit.register(zygote.close)
    return zygote
