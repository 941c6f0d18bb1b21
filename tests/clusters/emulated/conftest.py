import pytest

from paceline.clusters.emulated.network import try_out
from paceline.system.attempts import attempt


@pytest.fixture(scope="session", autouse=True)
def needs_namespaces():
    refused = attempt(lambda: try_out(0.0), timeout_s=60)
    if refused:
        pytest.skip(f"cannot create network namespaces here: {refused}")
