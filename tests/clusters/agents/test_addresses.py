"""Which address others are to call, also where a machine's own name stands for its loopback."""

import pytest

from paceline.clusters.agents import addresses
from paceline.clusters.agents.addresses import address_for, is_loopback
from tests.clusters.agents.ways import DRIVER, WAYS, known


@pytest.fixture(autouse=True)
def ways(monkeypatch):
    monkeypatch.setattr(addresses, "address_towards", known)


def test_the_address_that_leads_there():
    assert address_for("vm2", []) == DRIVER
    assert address_for("far", ["vm2"]) == WAYS["far"]


def test_this_machine_is_called_where_the_others_find_it():
    assert address_for("vm1", ["unknown", "localhost", "vm2"]) == DRIVER


def test_with_no_other_machine_loopback_will_do():
    assert address_for("vm1", ["localhost"]) == "127.0.0.1"


def test_a_host_that_is_not_known_is_an_error():
    with pytest.raises(OSError, match="not known"):
        address_for("unknown", ["vm2"])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.1.1", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("a", False),
    ],
)
def test_what_no_other_machine_reaches(address, expected):
    assert is_loopback(address) == expected
