"""How torch's workers meet: at nobody's port, and through a channel that lets nobody else in."""

import socket

import psutil
import pytest
import torch

import paceline
from paceline.clusters.local import Local
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.comm.words import Abort
from paceline.engine.progress import RunView
from paceline.errors import Aborted, WireError
from paceline.strategies.all_reduce.describe import Ddp
from paceline.strategies.all_reduce.meeting import ChannelStore, hanging_up
from paceline.system.descriptors import descriptors
from paceline.testing import Moons
from tests.comm.lines import line_of_a_seat

NAMES = ["worker0", "worker1"]


@pytest.fixture
def pairs():
    made = [line_of_a_seat() for _ in NAMES]
    yield made
    for pair in made:
        for end in pair:
            end.close()


@pytest.fixture
def channels(pairs):
    boxes = boxes_for(NAMES)
    return [MemoryChannel(name, boxes, its) for name, (_, its) in zip(NAMES, pairs, strict=True)]


@pytest.fixture
def stores(channels):
    return [ChannelStore(channels[0], NAMES[1:]), ChannelStore(channels[1], NAMES[:1])]


def test_what_one_sets_the_other_gets(stores):
    one, other = stores
    one.set("a", b"1")
    one.set("b", "two")
    other.set("c", b"")
    assert (other.get("b"), other.get("a"), one.get("c")) == (b"two", b"1", b"")
    assert other.check(["a", "b"])
    assert not one.check(["a", "d"])


def test_a_wait_for_what_nobody_sets_ends_with_the_run(stores, pairs):
    pairs[0][0].send(Abort("worker1 failed"))
    with pytest.raises(Aborted, match="worker1 failed"):
        stores[0].wait(["never"])


def test_a_message_that_is_no_value_is_refused(stores, channels):
    channels[1].send("worker0", torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(WireError, match="length of a key"):
        stores[0].get("a")


def listening(pid: int) -> set[tuple[str, int]]:
    found = psutil.Process(pid).net_connections(kind="tcp")
    return {tuple(each.laddr) for each in found if each.status == psutil.CONN_LISTEN}


def test_ddp_opens_no_port_beyond_loopback_in_a_local_run(tmp_path):
    """Torch's store would listen on all interfaces, and take what anybody sends."""
    found: set[str] = set()

    def watch(view: RunView) -> None:
        if view.phase == "training" and not found:
            for process in psutil.Process().children(recursive=True):
                found.update(host for host, _ in listening(process.pid))

    spec = paceline.RunSpec(
        workload=Moons(),
        strategy=Ddp(),
        cluster=Local(transport="zmq"),
        num_workers=2,
        worker_steps=600,
        record=paceline.Record(tensorboard=False, monitor=False),
    )
    assert paceline.run(spec, out=tmp_path, watch=watch).status == "finished"
    assert found == {"127.0.0.1"}


def test_hanging_up_ends_connections_and_leaves_nothing_behind(tmp_path):
    door = socket.create_server(("127.0.0.1", 0))
    before = set(descriptors())
    with (
        door,
        socket.create_connection(door.getsockname()) as calling,
        door.accept()[0] as called,
        (tmp_path / "a file").open("w"),
    ):
        held = set(descriptors())
        hanging_up(before)()
        assert set(descriptors()) == held
        assert (calling.recv(1), called.recv(1)) == (b"", b"")
