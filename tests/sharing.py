"""Runs that import torch once for all tests of a process, and are otherwise as any."""

from typing import Any

from paceline.engine import driver
from paceline.outcome.results import Result
from paceline.spec import RunSpec
from paceline.testing.sharing import shared_zygote


def run(spec: RunSpec, **how: Any) -> Result:
    """Carry out a run as `paceline.run` does."""
    return driver.run(spec, **how, zygote=shared_zygote())
