"""A slower interface than another is noticed, and nothing is said of what is not known."""

import pytest

from paceline.system.interfaces import faster_than


@pytest.fixture
def network(tmp_path):
    def add(name, speed, *, is_device=True, state="up", master=False):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "operstate").write_text(f"{state}\n")
        if speed is not None:
            (folder / "speed").write_text(f"{speed}\n")
        if is_device:
            (folder / "device").touch()
        if master:
            (folder / "master").touch()

    add("eth0", 1000)
    return tmp_path, add


def test_a_faster_device_is_named_with_both_rates(network):
    folder, add = network
    add("eth1", 10_000)
    assert faster_than("eth0", folder) == "eth1 has 10,000 Mbit/s, eth0 only 1,000 Mbit/s"
    assert faster_than("eth1", folder) is None


def test_what_is_down_unknown_virtual_or_part_of_a_bond_is_not_faster(network):
    folder, add = network
    add("eth1", 10_000, state="down")
    add("eth2", -1)
    add("eth3", None)
    add("docker0", 10_000, is_device=False)
    add("eth4", 10_000, master=True)
    assert faster_than("eth0", folder) is None
    assert faster_than("eth2", folder) is None
    assert faster_than("lo", folder) is None
