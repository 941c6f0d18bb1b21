"""Runs that import torch once for all tests of a process, and are otherwise as any."""

import atexit
from typing import Any

from paceline import driver
from paceline.clusters.zygote import Zygote
from paceline.results import Result
from paceline.spec import RunSpec

_ZYGOTE = Zygote()
atexit.register(_ZYGOTE.close)


def run(spec: RunSpec, **how: Any) -> Result:
    """Carry out a run as `paceline.run` does."""
    return driver.run(spec, **how, zygote=_ZYGOTE)
