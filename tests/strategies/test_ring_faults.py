"""Any order of deaths and returns: the ring goes on, and no update is lost or made twice."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draws

from tests.strategies.ring_world import RATE, Schedule, World


def play(schedule: Schedule) -> World:
    world = World(schedule)
    world.play()
    assert world.roster.workers, "somebody is left"
    for member in world.members.values():
        assert member.done is not None
        num_updates, parameters = member.done
        assert num_updates >= schedule.steps
        assert torch.equal(
            parameters, torch.full((6,), value_after(num_updates, schedule.momentum))
        )
    return world


def value_after(num_updates: int, momentum: float) -> float:
    """What each parameter is, as every gradient is 1: exact in binary for these few updates."""
    value, velocity = 0.0, 0.0
    for _ in range(num_updates):
        velocity = momentum * velocity + 1.0
        value -= RATE * velocity
    return value


def test_undisturbed_all_make_every_update():
    world = play(Schedule(workers=3, steps=4))
    assert {each.done[0] for each in world.members.values() if each.done} == {4}


@pytest.mark.parametrize("moment", range(1, 30))
def test_one_may_die_at_any_message(moment: int):
    world = play(Schedule(workers=3, steps=3, kills={"worker1.0": moment}))
    assert "worker1" not in world.roster.workers or moment > 12


@pytest.mark.parametrize("moment", range(3, 30, 2))
def test_two_may_die_at_once_and_while_the_others_form_again(moment: int):
    kills = {"worker0.0": moment, "worker2.0": moment + 2}
    play(Schedule(workers=4, steps=3, kills=kills, silent={"worker2.0"}))


@pytest.mark.parametrize("moment", range(3, 30, 3))
def test_one_that_returns_may_die_while_it_takes_values_over(moment: int):
    kills = {"worker1.0": 5, "worker1.1": moment}
    play(Schedule(workers=3, steps=6, kills=kills, returns={"worker1"}))


@pytest.mark.parametrize("order", [144, 148, 264, 325])
def test_one_at_rest_meets_who_saw_another_come_and_go(order: int):
    """It was at rest with the same members as before, and let the other one wait for ever."""
    kills, cut = {"worker1.1": 1 + order % 4}, {"worker1.1"} if order % 2 else set[str]()
    play(Schedule(workers=3, steps=1, kills=kills, cut=cut, late={"worker1"}, order=order))


def test_one_at_rest_looks_at_what_was_said_before_it_rested():
    kills = {"worker0.0": 1, "worker0.1": 32, "worker1.0": 1, "worker1.1": 1}
    play(Schedule(4, 1, kills, cut={"worker0.0"}, returns={"worker0"}, late={"worker1"}))


@pytest.mark.parametrize("moment", range(3, 30, 3))
def test_who_comes_begins_with_the_batch_that_the_others_begin_next(moment: int):
    world = play(Schedule(workers=3, steps=6, kills={"worker1.0": moment}, returns={"worker1"}))
    taken = [each.num_taken for each in world.members.values()]
    assert min(taken) >= 6
    assert max(taken) - min(taken) <= 1  # one was before the step under way, another in it


@pytest.mark.parametrize("moment", range(3, 30, 3))
def test_who_comes_goes_on_with_the_momentum_of_the_others(moment: int):
    schedule = Schedule(workers=3, steps=8, kills={"worker1.0": moment}, returns={"worker1"})
    world = play(replace(schedule, momentum=0.5))
    assert world.incarnations["worker1"] == 1


def test_a_schedule_always_comes_to_the_same():
    schedule = Schedule(4, 5, {"worker1.0": 7, "worker2.0": 9}, returns={"worker1"}, order=5)
    first, second = play(schedule), play(schedule)
    assert first.num_turns == second.num_turns
    assert play(replace(schedule, order=6)).num_turns != first.num_turns


SCHEDULES = draws.builds(
    Schedule,
    workers=draws.integers(2, 4),
    steps=draws.integers(1, 6),
    kills=draws.dictionaries(
        draws.sampled_from([f"worker{w}.{i}" for w in range(4) for i in range(3)]),
        draws.integers(1, 6) | draws.integers(1, 60),
        max_size=6,
    ),
    silent=draws.sets(draws.sampled_from([f"worker{w}.{i}" for w in range(4) for i in range(2)])),
    cut=draws.sets(draws.sampled_from([f"worker{w}.{i}" for w in range(4) for i in range(2)])),
    returns=draws.sets(draws.sampled_from([f"worker{w}" for w in range(4)])),
    late=draws.sets(draws.sampled_from(["worker1", "worker3"])),
    order=draws.integers(0, 2**32),
    momentum=draws.sampled_from([0.0, 0.5]),
)
QUIETLY = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@settings(max_examples=200, **QUIETLY)
@given(SCHEDULES)
def test_any_schedule_of_deaths_and_joins(schedule: Schedule):
    play(schedule)


@pytest.mark.thorough
@settings(max_examples=5000, **QUIETLY)
@given(SCHEDULES)
def test_thousands_of_schedules(schedule: Schedule):
    play(schedule)
