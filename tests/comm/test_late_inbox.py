"""Messages that are held for a latency: who is held, for how long, in which order."""

from time import monotonic

import pytest
import torch
import zmq

from paceline.comm import wire
from paceline.comm.late_inbox import LateInbox
from tests.comm.restarts import Run

LATENCY_S = 0.2
RUN = bytes(16)


@pytest.fixture
def ends():
    context = zmq.Context()
    inbox, outbox = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    inbox.setsockopt(zmq.RCVTIMEO, 20)
    inbox.bind("inproc://here")
    outbox.connect("inproc://here")
    late = LateInbox(inbox, LATENCY_S, is_near=lambda name: name == "worker1", timeout_s=0.05)
    yield late, outbox
    late.close()
    late.close()
    outbox.close(0)
    inbox.close(0)
    context.term()


def frames_of(sender: str, *parts: bytes) -> list[bytes]:
    size = sum(map(len, parts))
    return [wire.encode(wire.Kind(RUN, sender, "uint8", (size,)), 0, 0), *parts]


def received(late: LateInbox) -> list[bytes]:
    while True:
        try:
            frames = [late.recv(copy=False)]
        except zmq.Again:
            continue
        while frames[-1].more:
            frames.append(late.recv(copy=False))
        return [bytes(frame) for frame in frames[1:]]


def test_a_message_comes_a_latency_after_it_arrived_and_whole(ends):
    late, outbox = ends
    began_s = monotonic()
    outbox.send_multipart(frames_of("worker0", b"one", b"two"))
    assert received(late) == [b"one", b"two"]
    assert monotonic() - began_s >= LATENCY_S


def test_several_are_held_at_the_same_time_and_keep_their_order(ends):
    late, outbox = ends
    for number in range(5):
        outbox.send_multipart(frames_of("worker0", bytes([number])))
    assert [received(late) for _ in range(5)] == [[bytes([number])] for number in range(5)]


def test_one_of_the_same_node_is_not_held(ends):
    late, outbox = ends
    outbox.send_multipart(frames_of("worker0", b"far"))
    outbox.send_multipart(frames_of("worker1", b"near"))
    assert received(late) == [b"near"]
    assert received(late) == [b"far"]


def test_what_is_no_frame_of_ours_is_passed_on_to_be_judged(ends):
    late, outbox = ends
    outbox.send_multipart([b"rubbish", b"more"])
    assert received(late) == [b"more"]


def test_nothing_there_is_said_as_a_socket_says_it(ends):
    late, _ = ends
    with pytest.raises(zmq.Again):
        late.recv(copy=False)


def test_who_listens_looks_around_no_more_often_than_without_a_latency(monkeypatch):
    names = ("worker0", "worker1")
    run = Run(names, nodes={name: f"node of {name}" for name in names}, latency_s=LATENCY_S)
    looks = []
    look = run["worker1"]._look
    monkeypatch.setattr(run["worker1"], "_look", lambda **how: (looks.append(how), look(**how)))
    began_s = monotonic()
    try:
        for number in range(3):
            sent_s = monotonic()
            run["worker0"].send("worker1", torch.full((2,), float(number)))
            while (message := run["worker1"].listen()) is None:
                pass
            assert message.values.tolist() == [number, number]
            assert monotonic() - sent_s >= LATENCY_S
        run["worker1"].wake()
        assert run["worker1"].listen() is None
        # Twenty times a second are wanted; with a poll per millisecond there were hundreds.
        assert len(looks) < 10 + 40 * (monotonic() - began_s)
    finally:
        run.close()
