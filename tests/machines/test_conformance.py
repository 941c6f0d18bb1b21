"""What every cluster must do, on real machines. Tests of each start this on one of three hosts."""

import os
import sys

import pytest

from paceline.clusters.agents.ray.describe import Ray
from paceline.clusters.agents.ssh import Ssh
from paceline.testing import ClusterConformance

HOSTS = os.environ.get("PACELINE_TEST_HOSTS", "")

RAY = os.environ.get("PACELINE_TEST_RAY", "")


@pytest.mark.skipif(not HOSTS, reason="test_ssh.py starts it, on a host of its own")
class TestSsh(ClusterConformance):
    cluster = Ssh(hosts=tuple(HOSTS.split(",")), python=sys.executable)


@pytest.mark.skipif(not RAY, reason="test_ray.py starts it, on a host of its own")
class TestRay(ClusterConformance):
    cluster = Ray(nodes=2, ray_address=RAY)
