"""A server dies at any message and comes back: no push is applied twice, and all go on."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draws

from paceline.strategies.parameter_server import server
from paceline.strategies.parameter_server.describe import (
    ParameterServer,
    PsAsync,
    PsSsp,
    PsSync,
)
from paceline.strategies.parameter_server.snapshots import Snapshots
from tests.strategies.ps_world import Schedule, World

ASYNC = PsAsync(snapshot_s=1.0)
BY_CHUNK = PsAsync(snapshot_s=1.0, refuse="chunk")
TWO = PsAsync(snapshot_s=1.0, servers=2)
BOUNDED = PsSsp(snapshot_s=1.0, staleness=1)
SYNC = PsSync(snapshot_s=1.0)
BACKUP = PsSync(snapshot_s=1.0, backup=1)
TOGETHER = PsSync(snapshot_s=1.0, servers=2)
TOGETHER_BACKUP = PsSync(snapshot_s=1.0, servers=2, backup=1)
ALL = (ASYNC, BY_CHUNK, TWO, BOUNDED, SYNC, TOGETHER)


class Clock:
    """A snapshot may be taken whenever there is a state."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 10.0
        return self.now_s


@pytest.fixture(autouse=True, scope="module")
def always_due():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Snapshots", lambda *given: Snapshots(*given, Clock()))
        yield


def play(strategy: ParameterServer, **given) -> World:
    world = World(Schedule(strategy=strategy, **given))
    world.play()
    applied = world.applied()
    once = 1.0 if strategy.name != "ps-sync" else None
    values = {round(float(each), 4) for each in applied.reshape(-1)}
    assert values <= ({0.0, 1.0} if once else {0.0, *(round(1 / n, 4) for n in (1, 2, 3))}), values
    if world.has_one_version:
        assert (applied == applied[0]).all(), applied
        assert values <= {0.0, round(1 / len(world.roster.workers), 4)}
    if world.schedule.most_steps is not None:
        assert world.newest("server0").server.application.keep.version <= most_updates(world)
    if strategy.name != "ps-sync":
        assert_none_is_lost_silently(world, applied)
        assert_what_is_sent_again_is_applied(world, applied)
    return world


def most_updates(world: World) -> int:
    """As many as are wanted; a push that is sent again to a server that is back counts too."""
    schedule = world.schedule
    is_back = any(key.startswith("server") for key in schedule.kills)
    return (schedule.most_steps or 0) + is_back * (schedule.workers - 1)


def assert_what_is_sent_again_is_applied(world: World, applied: torch.Tensor) -> None:
    newest = {world.newest(name).key: index for index, name in enumerate(world.servers)}
    num_chunks = world.schedule.num_chunks
    for key, worker, step in world.sent_again:
        if key in newest and step < worker.num_steps:  # it was answered
            chunks = applied.split(num_chunks)[newest[key]]
            assert chunks[:, worker.place_of(step)].tolist() == [1.0] * num_chunks


def assert_none_is_lost_silently(world: World, applied: torch.Tensor) -> None:
    """A push that was answered is applied, or is one of those that the server said it lost.

    Of what only the dead had seen nobody knows that it was lost.
    """
    workers = [each for each in world.seats if each.is_worker and each.lives]
    answered = [each.place_of(step) for each in workers for step in range(each.num_steps)]
    said = {key for key, _, _ in world.lost}
    by_server = applied.split(world.schedule.num_chunks)
    for name, chunks in zip(world.servers, by_server, strict=True):
        lives = [each for each in world.seats if each.name == name]
        if any(each.incarnation and each.key not in said for each in lives):
            continue  # it died again before all had found it: what it had lost nobody counted
        num_lost = sum(lost for key, _, lost in world.lost if key.startswith(f"{name}."))
        assert int((chunks[:, answered] < 1).any(dim=0).sum()) <= num_lost


@pytest.mark.parametrize("strategy", ALL, ids=str)
def test_undisturbed_every_push_is_applied_once(strategy: ParameterServer):
    world = play(strategy)
    places = [each.place_of(step) for each in world.seats if each.is_worker for step in range(4)]
    assert (world.applied()[:, places] > 0).all()
    assert world.lost == []


@pytest.mark.parametrize("strategy", ALL, ids=str)
def test_undisturbed_as_many_updates_are_made_as_are_wanted(strategy: ParameterServer):
    world = play(strategy, most_steps=3)
    assert world.newest("server0").server.application.keep.version == 3


@pytest.mark.parametrize("moment", range(1, 30))
@pytest.mark.parametrize("strategy", ALL, ids=str)
def test_a_server_may_die_in_a_run_of_so_many_updates(strategy: ParameterServer, moment: int):
    play(strategy, kills={"server0.0": moment}, most_steps=3, order=moment)


@pytest.mark.parametrize("moment", range(1, 40))
@pytest.mark.parametrize("strategy", ALL, ids=str)
def test_a_server_may_die_at_any_message(strategy: ParameterServer, moment: int):
    play(strategy, kills={"server0.0": moment}, looked_at={2}, order=moment)


@pytest.mark.parametrize("moment", range(1, 24, 2))
@pytest.mark.parametrize("strategy", ALL, ids=str)
def test_it_may_die_again_while_workers_greet_it(strategy: ParameterServer, moment: int):
    play(strategy, kills={"server0.0": 9, "server0.1": moment}, order=moment)


@pytest.mark.parametrize("moment", range(1, 24))
@pytest.mark.parametrize("strategy", [ASYNC, BY_CHUNK, BOUNDED], ids=str)
def test_it_may_die_where_a_push_is_one_message(strategy: ParameterServer, moment: int):
    kills = {"server0.0": moment, "server0.1": 30 - moment}
    play(strategy, kills=kills, num_chunks=1, workers=3, looked_at={2}, order=moment)


def test_who_opens_its_channel_when_the_server_is_back_already_greets_it_first():
    """Its first push was sent twice, and applied twice."""
    play(BACKUP, kills={"server0.0": 3}, order=0, workers=2, keeps=0.0, looked_at={1})


def test_who_is_late_for_a_server_that_is_back_is_not_left_waiting_when_another_leaves():
    """The update waited for the one that left, and the late one for the update."""
    play(BACKUP, kills={"server0.0": 37}, order=9828, workers=3, keeps=0.0, looked_at={1})


@pytest.mark.parametrize("strategy", [*ALL, BACKUP, TOGETHER_BACKUP], ids=str)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kills=draws.fixed_dictionaries(
        {},
        optional={
            key: draws.integers(1, 60)
            for key in ("server0.0", "server0.1", "server0.2", "server1.0", "worker1.0")
        },
    ),
    order=draws.integers(0, 10**6),
    workers=draws.integers(2, 3),
    keeps=draws.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_any_order_of_events(
    strategy: ParameterServer, kills: dict[str, int], order: int, workers: int, keeps: float
):
    looked_at = {1 + order % 4}
    play(strategy, kills=kills, order=order, workers=workers, keeps=keeps, looked_at=looked_at)
