"""What every cluster must do, on real machines.

Tests of each way to start agents start this on one of the hosts; where torchrun brings them
together, on each.
"""

import os
import sys

import pytest

from paceline.clusters.agents.manual.describe import Manual
from paceline.clusters.agents.ray.describe import Ray
from paceline.clusters.agents.ssh import Ssh
from paceline.clusters.agents.torchrun.describe import Torchrun
from paceline.testing import ClusterConformance
from paceline.testing.sharing import shared_zygote

HOSTS = os.environ.get("PACELINE_TEST_HOSTS", "")

RAY = os.environ.get("PACELINE_TEST_RAY", "")

ADDRESSES = os.environ.get("PACELINE_TEST_ADDRESSES", "")

TORCHRUN = os.environ.get("PACELINE_TEST_TORCHRUN", "")


@pytest.mark.skipif(not HOSTS, reason="test_ssh.py starts it, on a host of its own")
class TestSsh(ClusterConformance):
    cluster = Ssh(hosts=tuple(HOSTS.split(",")), python=sys.executable)


@pytest.mark.skipif(not RAY, reason="test_ray.py starts it, on a host of its own")
class TestRay(ClusterConformance):
    cluster = Ray(nodes=2, ray_address=RAY)


@pytest.mark.skipif(not ADDRESSES, reason="test_manual.py starts it, on a host of its own")
class TestManual(ClusterConformance):
    cluster = Manual(hosts={"worker": tuple(ADDRESSES.split(","))})


@pytest.fixture(scope="class")
def driven(request):
    """Drive the tests on the host of rank 0; serve them, to their end, on the others."""
    with request.cls.cluster.assembled() as drives:
        if not drives:
            pytest.skip("served the host that drives")
        yield
        shared_zygote().close()  # its agents are reached through torchrun's store


@pytest.mark.skipif(not TORCHRUN, reason="test_torchrun.py starts it, on hosts of its own")
@pytest.mark.usefixtures("driven")
class TestTorchrun(ClusterConformance):
    cluster = Torchrun(nodes=int(TORCHRUN or 1))
