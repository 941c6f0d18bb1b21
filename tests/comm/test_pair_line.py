"""A line between processes of one host."""

import os
import socket
from collections.abc import Iterator

import pytest

from paceline.comm.keeper_words import TO_KEEPERS, Dump
from paceline.comm.line import Garbled, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.vocabularies import FROM_DRIVER
from paceline.comm.words import Stop


@pytest.fixture
def ends() -> Iterator[tuple[PairLine, PairLine]]:
    first, second = (PairLine(end, hears=TO_KEEPERS) for end in PairLine.pair())
    yield first, second
    first.close()
    second.close()


def test_more_sockets_can_be_handed_over_than_fit_in_one_message(ends: tuple[PairLine, PairLine]):
    pairs = [socket.socketpair() for _ in range(300)]
    ends[0].hand_over(Dump("these"), [mine for mine, _ in pairs])
    word, descriptors = ends[1].take_over()
    taken = [socket.socket(fileno=each) for each in descriptors]
    assert word == Dump("these")
    try:
        for number, ((_, kept), got) in enumerate(zip(pairs, taken, strict=True)):
            kept.send(str(number).encode())
            assert got.recv(10) == str(number).encode()
        assert not any(os.get_inheritable(each.fileno()) for each in taken)
    finally:
        for each in (*taken, *(end for pair in pairs for end in pair)):
            each.close()


def test_whoever_waits_for_sockets_is_told_of_the_end(ends: tuple[PairLine, PairLine]):
    ends[0].close()
    with pytest.raises(LineClosed):
        ends[1].take_over()


def test_a_line_with_a_high_descriptor_can_be_waited_on(ends: tuple[PairLine, PairLine]):
    if os.sysconf("SC_OPEN_MAX") <= 1500:
        pytest.skip("no descriptor beyond 1023 is allowed here")
    high = PairLine(socket.socket(fileno=os.dup2(ends[0].fileno(), 1500)), hears=TO_KEEPERS)
    assert high.receive(timeout_s=0) is None
    ends[1].send(Dump("worker0"))
    assert high.receive(timeout_s=1) == Dump("worker0")
    high.close()


def test_what_nobody_says_there_is_an_error_that_says_so():
    mine, its = PairLine.pair()
    with mine, its:
        mine.send(b'{"kind":"joined"}')
        with pytest.raises(Garbled, match="kind = 'joined': not one of members, start"):
            PairLine(its, hears=FROM_DRIVER).receive(1)
        PairLine(mine, hears=FROM_DRIVER).send(Stop())
        assert PairLine(its, hears=FROM_DRIVER).receive(1) == Stop()
