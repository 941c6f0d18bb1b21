import pytest

from paceline.attempts import attempt
from paceline.clusters.emulated.describe import Emulated
from paceline.clusters.emulated.network import try_out
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.testing import ClusterConformance


class TestInline(ClusterConformance):
    cluster = Inline()


class TestLocal(ClusterConformance):
    cluster = Local()


class TestEmulated(ClusterConformance):
    cluster = Emulated()

    @pytest.fixture(autouse=True)
    def needs_namespaces(self):
        refused = attempt(lambda: try_out(0.0), timeout_s=60)
        if refused:
            pytest.skip(f"cannot create network namespaces here: {refused}")
