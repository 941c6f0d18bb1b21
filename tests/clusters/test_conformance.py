import pytest

from paceline.clusters.emulated.describe import Emulated
from paceline.clusters.emulated.network import try_out
from paceline.clusters.inline import Inline
from paceline.clusters.local import Local
from paceline.system.attempts import attempt
from paceline.testing import ClusterConformance
from tests.clusters.subprocesses import Subprocesses


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


class TestSubprocesses(ClusterConformance):
    """Seats over TCP, each from a ticket, in a folder of its own: what real machines need."""

    cluster = Subprocesses()
