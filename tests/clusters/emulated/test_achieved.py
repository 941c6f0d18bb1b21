"""What a link carries, where the one who reads has no processor now and then."""

import socket
import time

import pytest

from paceline.clusters.emulated.achieved import _best, _take


def test_what_piled_up_before_belongs_to_the_time_before():
    source, sink = socket.socketpair()
    with source, sink:
        source.send(bytes(1000))
        num_bytes, ended_s = _take(sink, bytearray(64), time.perf_counter())
        assert num_bytes == 1000
        assert ended_s <= time.perf_counter()
        source.send(bytes(10))
        assert _take(sink, bytearray(64), time.perf_counter())[0] == 10


@pytest.mark.parametrize(
    ("rates", "best", "num_tries"),
    [
        ([99, 50, 50], 99, 1),
        ([130, 98, 50], 98, 2),
        ([130, 50, 90], 90, 3),
        ([0, 0, 0], 0, 3),
        ([300, 250, 400], 250, 3),
    ],
)
def test_the_try_nearest_to_what_was_asked_for_counts(rates, best, num_tries):
    left = iter(rates)
    assert _best(lambda: float(next(left)), asked=100.0, tries=3) == best
    assert len(list(left)) == 3 - num_tries
