"""What a worker reads straight from a server's memory, when that server stops half-way."""

import threading

import pytest
import torch
from torch import nn

from paceline.comm.host_memory import Host, close_holdings, make_holdings
from paceline.comm.words import Abort
from paceline.errors import Aborted
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk
from paceline.strategies.parameter_server.link import DECIDED, WORD
from paceline.strategies.parameter_server.memory_link import SharedWorkerLink
from paceline.strategies.parameter_server.memory_server_link import SharedServerLink
from paceline.training.optim import Sgd
from paceline.training.replica import Replica
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_of


@pytest.fixture
def lines():
    """Both seats' lines to the driver, and the driver's ends of them."""
    pairs = {name: line_of_a_seat() for name in ("worker0", "server0")}
    yield pairs
    for pair in pairs.values():
        for end in pair:
            end.close()


@pytest.fixture
def places(lines):
    holdings = make_holdings(lines)
    yield {
        name: Place(
            name=name,
            roster=roster_of("worker0", "server0"),
            replica=Replica(nn.Linear(3, 1)),
            optimizer=Sgd(lr=0.1),
            most_steps=None,
            own_node=Host(name, holdings, line),
            open_channel=lambda: pytest.fail("memory is shared: nobody opens a channel"),
        )
        for name, (_, line) in lines.items()
    }
    close_holdings(holdings)


@pytest.mark.timeout(30)
def test_a_server_that_dies_in_the_middle_of_a_change_is_not_waited_for_for_ever(lines, places):
    chunks = [Chunk(0, 0, 0, 4)]
    server = SharedServerLink(places["server0"], places["server0"].host, [chunks], exact=False)
    server.place_parameters(torch.zeros(4))
    worker = SharedWorkerLink(places["worker0"], places["worker0"].host, [chunks], exact=False)

    def die_while_changing() -> None:
        next(server.arrivals())
        server.changes[0] += 1
        server.answer(0, chunks[0], torch.zeros(4), version=1, flags=DECIDED)
        lines["worker0"][0].send(Abort("server0 failed: killed"))

    dying = threading.Thread(target=die_while_changing)
    dying.start()
    with pytest.raises(Aborted, match="server0 failed: killed"):
        worker.exchange(flags=0)
    dying.join()


@pytest.mark.timeout(30)
def test_two_pushes_that_are_seen_in_one_look_both_arrive(places):
    """A push may be void, and answered, before its word is seen; its worker then pushes again."""
    chunks = [Chunk(0, 0, 0, 2), Chunk(0, 1, 2, 4)]
    server = SharedServerLink(places["server0"], places["server0"].host, [chunks], exact=False)
    server.place_parameters(torch.zeros(4))
    worker = SharedWorkerLink(places["worker0"], places["worker0"].host, [chunks], exact=False)
    arrivals = server.arrivals()
    worker.send_early(chunks[1])
    first = next(arrivals)
    assert (first.push, first.chunk.index, bool(first.flags & WORD)) == (1, 1, False)
    for _ in range(2):
        worker._push(0)
        worker.send_early(chunks[1])
    seen = [next(arrivals) for _ in range(4)]
    assert [(each.push, bool(each.flags & WORD)) for each in seen] == [
        (1, True),
        (2, True),
        (2, False),
        (3, False),  # sent early already
    ]
