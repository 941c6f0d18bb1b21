"""Any order of deaths, cuts and joins at servers: none hangs, no push is lost or applied twice."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draws

from paceline.strategies.parameter_server.describe import ParameterServer
from tests.strategies.ps_world import MOST_LIVES
from tests.strategies.test_ps_server_deaths import (
    ALL,
    ASYNC,
    BACKUP,
    BOUNDED,
    BY_CHUNK,
    SYNC,
    TOGETHER,
    TOGETHER_BACKUP,
    TWO,
    always_due,
    play,
)

__all__ = ["always_due"]

EACH = [*ALL, BACKUP, TOGETHER_BACKUP]
WORKERS = [f"worker{index}" for index in range(3)]
LIVES = [
    f"{name}.{life}" for name in (*WORKERS, "server0", "server1") for life in range(MOST_LIVES)
]


@pytest.mark.parametrize("moment", range(1, 24))
@pytest.mark.parametrize("strategy", EACH, ids=str)
def test_a_worker_may_die_at_any_message_and_return(strategy: ParameterServer, moment: int):
    play(strategy, kills={"worker1.0": moment}, returns={"worker1"}, order=moment)


@pytest.mark.parametrize("moment", range(1, 12))
@pytest.mark.parametrize("strategy", EACH, ids=str)
def test_one_that_returns_may_die_while_it_enters(strategy: ParameterServer, moment: int):
    kills = {"worker1.0": 5, "worker1.1": moment}
    play(strategy, kills=kills, returns={"worker1"}, order=moment)


@pytest.mark.parametrize("moment", range(1, 24, 2))
@pytest.mark.parametrize("strategy", EACH, ids=str)
def test_what_one_sends_that_was_given_up_is_not_taken(strategy: ParameterServer, moment: int):
    kills = {"worker1.0": moment}
    play(strategy, kills=kills, cut={"worker1.0"}, returns={"worker1"}, order=moment)


@pytest.mark.parametrize("order", range(10))
@pytest.mark.parametrize("strategy", EACH, ids=str)
def test_a_first_message_that_overtakes_the_roster_is_not_taken_for_the_dead_ones(
    strategy: ParameterServer, order: int
):
    """Its answer went to the one that was there before, and it waited for ever."""
    play(strategy, kills={"worker1.0": 2}, returns={"worker1"}, workers=3, order=order)


@pytest.mark.parametrize(
    ("strategy", "at_worker", "at_server", "order"),
    [(BY_CHUNK, 13, 25, 393), (BOUNDED, 11, 22, 586), (BY_CHUNK, 7, 26, 596)],
    ids=str,
)
def test_a_snapshot_of_the_one_before_is_not_taken_for_the_one_that_returned(
    strategy: ParameterServer, at_worker: int, at_server: int, order: int
):
    """As many pushes of both were counted: one was said to be applied, and was not."""
    kills = {"worker1.0": at_worker, "server0.0": at_server}
    keeps = 0.1 if strategy is BOUNDED else 0.05
    play(strategy, kills=kills, returns={"worker1"}, keeps=keeps, order=order)


SCHEDULES = draws.fixed_dictionaries(
    {
        "strategy": draws.sampled_from(
            [ASYNC, BY_CHUNK, TWO, BOUNDED, SYNC, BACKUP, TOGETHER, TOGETHER_BACKUP]
        ),
        "workers": draws.integers(2, 3),
        "kills": draws.dictionaries(
            draws.sampled_from(LIVES),
            draws.integers(1, 6) | draws.integers(1, 60),
            max_size=6,
        ),
        "silent": draws.sets(draws.sampled_from(LIVES)),
        "cut": draws.sets(draws.sampled_from(LIVES)),
        "returns": draws.sets(draws.sampled_from(WORKERS)),
        "late": draws.sets(draws.sampled_from(WORKERS[1:])),
        "looked_at": draws.sets(draws.integers(1, 4), max_size=1),
        "keeps": draws.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0]),
        "order": draws.integers(0, 2**32),
        "most_steps": draws.sampled_from([None, None, 1, 3, 5]),
    }
)
QUIETLY = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=200, **QUIETLY)
@given(SCHEDULES)
def test_any_schedule_of_deaths_cuts_and_joins(schedule: dict):
    play(**schedule)


@pytest.mark.thorough
@settings(max_examples=5000, **QUIETLY)
@given(SCHEDULES)
def test_thousands_of_schedules(schedule: dict):
    play(**schedule)
