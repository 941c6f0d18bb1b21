"""What seats are called."""

import pytest

from paceline.seats import parsed, role_of, seat_name, server_names, worker_names


@pytest.mark.parametrize("name", ["worker", "worker01", "worker-1", "cook0", "worker0x", ""])
def test_what_is_no_seat(name: str):
    with pytest.raises(ValueError, match="is no seat"):
        parsed(name)
    assert role_of(name) == name


def test_a_seats_name_is_read():
    assert parsed("worker12") == ("worker", 12)
    assert parsed("monitor0") == ("monitor", 0)
    assert role_of("server3") == "server"


def test_names_are_read_as_they_are_written():
    names = [*worker_names(12), *server_names(2), seat_name("monitor", 0)]
    assert [seat_name(*parsed(name)) for name in names] == names
    assert names[11:13] == ["worker11", "server0"]
