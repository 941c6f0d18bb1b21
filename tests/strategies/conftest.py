from collections.abc import Callable
from functools import cache

import pytest

import paceline
from paceline.outcome.results import Result
from tests.sharing import run


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Callable[[paceline.RunSpec], Result]:
    """Carries out a run that several tests compare with; the second time its result is there."""
    out = tmp_path_factory.mktemp("once")
    return cache(lambda spec: run(spec, out=out))
