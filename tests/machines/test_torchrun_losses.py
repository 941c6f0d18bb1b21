"""Whatever torchrun's nodes lose: an error that names the host, and nothing of ours left."""

import time

import pytest

from tests.machines.losses import (
    DRIVERS,
    TORCHRUN_NAMED,
    by_torchrun,
    by_torchrun_with_the_store_on_b,
    is_named,
    moment,
    ours,
    started,
)
from tests.machines.test_losses import MOMENTS, assert_sealed
from tests.machines.torchruns import told

STORES = {"elsewhere": by_torchrun, "on b": by_torchrun_with_the_store_on_b}
LEAVING_S = 60.0

pytestmark = pytest.mark.thorough


@pytest.fixture
def hosts(own_hosts):
    own_hosts.know_names()
    return own_hosts


def assert_nothing_of_ours_is_left(hosts, processes):
    """torchrun itself may still wait for its store: it is not waited for."""
    deadline_s = time.monotonic() + LEAVING_S
    while left := ours(hosts):
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)
    for each in processes.values():
        each.kill()
        each.communicate()


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("loss", TORCHRUN_NAMED)
def test_a_lost_host_is_named_and_nothing_is_left(loss, store, number, hosts):
    processes = started(hosts, moment(number), STORES[store])
    TORCHRUN_NAMED[loss](hosts, processes["a"])
    said = told({"a": processes.pop("a")})["a"]
    assert said[0] == 1, said
    assert any(is_named(line) for line in said[1].splitlines()), said
    assert_nothing_of_ours_is_left(hosts, processes)
    assert_sealed(hosts)


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("loss", DRIVERS)
def test_without_a_driver_nothing_is_left(loss, number, hosts):
    processes = started(hosts, moment(number), by_torchrun)
    DRIVERS[loss](hosts, processes["a"])
    assert_nothing_of_ours_is_left(hosts, processes)
