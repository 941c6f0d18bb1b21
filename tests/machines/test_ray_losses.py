"""Whatever a Ray cluster loses: an error that names the host, and nothing of ours left."""

import subprocess

import pytest

from tests.machines.hosts import Hosts, why_not
from tests.machines.losses import PATIENCE_S, cut_link, kill_driver, kill_host, moment, started
from tests.machines.ray_cluster import start_ray
from tests.machines.ray_cluster import why_not as why_no_ray
from tests.machines.runs import assert_nothing_is_left
from tests.machines.test_losses import MOMENTS, assert_sealed
from tests.machines.test_ray import over_ray

REASON = why_no_ray()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
]


@pytest.fixture
def hosts(tmp_path):
    """Hosts of a test's own, with Ray: some of them do not survive it."""
    refused = why_not()
    if refused:
        pytest.skip(refused)
    with Hosts(["a", "b", "c"], tmp_path) as made:
        start_ray(made)
        yield made


def kill_raylet(hosts: Hosts, _: subprocess.Popen[str]) -> None:
    """Have Ray lose the node: the host itself is still there."""
    found = hosts.run("b", ["pgrep", "-x", "raylet"]).stdout.split()
    hosts.kill_process("b", int(found[0]))


NAMED = {"host killed": kill_host, "link cut": cut_link, "raylet killed": kill_raylet}


@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("loss", NAMED)
def test_a_lost_node_is_named_and_nothing_is_left(loss, number, hosts):
    driver = started(hosts, moment(number), over_ray)
    NAMED[loss](hosts, driver)
    _, told = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, told
    lines = [line for line in told.splitlines() if "waiting for" not in line]
    named = ("(b)", "not reached: b", "it has 2 with CPUs")  # before, and after Ray has noticed
    assert any(each in line for line in lines for each in named), told
    assert_sealed(hosts)
    if loss == "host killed":  # Ray's own daemons of a host that is cut off, or has no raylet, end
        assert_nothing_is_left(hosts)  # in their own time, and are not ours
    else:
        assert not ours(hosts)


def ours(hosts: Hosts) -> list[str]:
    return [each for name in hosts.names for each in hosts.left(name) if "paceline" in each]


@pytest.mark.parametrize("number", range(MOMENTS))
def test_without_a_driver_nothing_is_left(number, hosts):
    driver = started(hosts, moment(number), over_ray)
    kill_driver(hosts, driver)
    driver.communicate(timeout=PATIENCE_S)
    assert_nothing_is_left(hosts)
