"""Whatever a Ray cluster loses: an error that names the host, and nothing of ours left."""

import pytest

from tests.machines.losses import (
    DRIVERS,
    PATIENCE_S,
    RAY_NAMED,
    by_ray,
    is_named,
    moment,
    ours,
    started,
)
from tests.machines.ray_cluster import start_ray
from tests.machines.ray_cluster import why_not as why_no_ray
from tests.machines.runs import assert_nothing_is_left
from tests.machines.test_losses import MOMENTS, assert_sealed

REASON = why_no_ray()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]


@pytest.fixture
def hosts(own_hosts):
    """With Ray on each."""
    start_ray(own_hosts)
    return own_hosts


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("loss", RAY_NAMED)
def test_a_lost_node_is_named_and_nothing_is_left(loss, number, hosts):
    driver = started(hosts, moment(number), by_ray)["a"]
    RAY_NAMED[loss](hosts, driver)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    assert any(is_named(line) for line in told.splitlines()), told
    assert_sealed(hosts)
    if loss == "host killed":  # Ray's own daemons of a host that is cut off, or has no raylet, end
        assert_nothing_is_left(hosts)  # in their own time, and are not ours
    else:
        assert not ours(hosts)


@pytest.mark.parametrize("number", range(MOMENTS))
def test_without_a_driver_nothing_is_left(number, hosts):
    driver = started(hosts, moment(number), by_ray)["a"]
    DRIVERS["driver killed"](hosts, driver)
    driver.communicate(timeout=PATIENCE_S)
    assert_nothing_is_left(hosts)
