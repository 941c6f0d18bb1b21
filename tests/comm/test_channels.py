"""One suite for every channel: what strategies rely on, whatever carries the tensors."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pytest
import torch
import zmq
from torch import Tensor

from paceline.comm import wire
from paceline.comm.base import Channel, Finished
from paceline.comm.mailbox import make_mailbox
from paceline.comm.memory import MemoryChannel, boxes_for
from paceline.comm.ticket import Medium
from paceline.comm.words import Abort, Finish, Saved, Stop
from paceline.comm.zmq import ZmqChannel
from paceline.errors import Aborted
from tests.comm.credentials import make_credentials
from tests.comm.lines import line_of_a_seat
from tests.comm.rosters import roster_at

NAMES = ["worker0", "worker1", "worker2", "server0"]
RUN = b"sixteen bytes!!!"
NUM_LARGE = 5_000_000  # 20 MB of float32


class Harness(ABC):
    """The seats of a run, each with a line to its driver and a channel to the others."""

    def __init__(self) -> None:
        pairs = {name: line_of_a_seat() for name in NAMES}
        self.driver = {name: mine for name, (mine, _) in pairs.items()}
        self.lines = {name: its for name, (_, its) in pairs.items()}
        self.channels: dict[str, Channel] = {}

    @abstractmethod
    def open(self, name: str) -> Channel: ...

    def __getitem__(self, name: str) -> Channel:
        if name not in self.channels:
            self.channels[name] = self.open(name)
        return self.channels[name]

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()
        for line in [*self.driver.values(), *self.lines.values()]:
            line.close()


class Memory(Harness):
    boxes = None

    def open(self, name: str) -> Channel:
        self.boxes = self.boxes or boxes_for(NAMES)
        return MemoryChannel(name, self.boxes, self.lines[name])


class Zmq(Harness):
    def __init__(self, medium: Medium = "unix", *, encrypt: bool = False) -> None:
        super().__init__()
        self.mailboxes = {name: make_mailbox(medium, "127.0.0.1") for name in NAMES}
        self.addresses = {name: each.address for name, each in self.mailboxes.items()}
        self.credentials = make_credentials(NAMES, encrypt=encrypt)

    def open(self, name: str) -> Channel:
        listener = self.mailboxes[name].listener.detach()
        return ZmqChannel(
            name,
            roster_at(self.addresses),
            RUN,
            self.lines[name],
            credentials=self.credentials[name],
            listener=listener,
        )

    def close(self) -> None:
        super().close()
        for each in self.mailboxes.values():
            each.listener.close()


KINDS: dict[str, Callable[[], Harness]] = {
    "memory": Memory,
    "unix": Zmq,
    "tcp": lambda: Zmq("tcp"),
    "unix, encrypted": lambda: Zmq(encrypt=True),
    "tcp, encrypted": lambda: Zmq("tcp", encrypt=True),
}


@pytest.fixture(params=KINDS)
def seats(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = KINDS[request.param]()
    yield made
    made.close()


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs something beside the test; what it raises is raised at the end."""
    threads, errors = [], []

    def start(work: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        threads.append(threading.Thread(target=guarded))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert errors == []


def arrived(seats: Harness, values: Tensor, tag: int = 0) -> Tensor:
    seats["server0"]
    seats["worker0"].send("server0", values, tag)
    message = seats["server0"].receive()
    assert (message.sender, message.tag) == ("worker0", tag)
    return message.values


@pytest.mark.parametrize("dtype", wire.DTYPES)
def test_every_dtype_arrives_to_the_bit(seats: Harness, dtype: str):
    values = (torch.randn(7, 3) * 50).to(getattr(torch, dtype))
    got = arrived(seats, values)
    assert got.dtype == values.dtype
    assert torch.equal(got, values)


def test_values_that_are_no_numbers_arrive(seats: Harness):
    values = torch.tensor([float("nan"), float("inf"), -0.0])
    assert arrived(seats, values).view(torch.int32).tolist() == values.view(torch.int32).tolist()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 5), (3, 0, 2), (2, 3, 4, 5)], ids=str)
def test_every_shape_arrives(seats: Harness, shape: tuple[int, ...]):
    values = torch.randn(shape)
    got = arrived(seats, values, tag=2**64 - 1)
    assert got.shape == values.shape
    assert torch.equal(got, values)


def test_views_and_parameters_arrive_as_their_values(seats: Harness):
    base = torch.randn(6, 8)
    for values in (base.t(), base[:, 1:3], base[2], torch.nn.Parameter(base)):
        got = arrived(seats, values)
        assert torch.equal(got, values.detach())
        assert not got.requires_grad


def test_what_arrives_can_be_changed_and_belongs_to_the_receiver(seats: Harness):
    values = torch.ones(5)
    got = arrived(seats, values)
    got.zero_()
    assert values.tolist() == [1.0] * 5


def test_twenty_megabytes_arrive_and_are_counted(seats: Harness):
    values = torch.arange(NUM_LARGE, dtype=torch.float32)
    assert torch.equal(arrived(seats, values), values)
    assert seats["worker0"].sent_bytes == seats["server0"].received_bytes == values.nbytes
    assert seats["worker0"].received_bytes == seats["server0"].sent_bytes == 0


@pytest.mark.parametrize("num_values", [0, 4, 10_000, NUM_LARGE])
def test_an_outlet_sends_what_its_memory_holds_by_then(seats: Harness, num_values: int):
    seats["server0"]
    values = torch.zeros(num_values)
    outlet = seats["worker0"].outlet("server0", values)
    for number in range(3):
        values.fill_(number)
        outlet(number + 10)
        values.fill_(-1)
    for number in range(3):
        message = seats["server0"].receive()
        assert (message.tag, message.shape) == (number + 10, (num_values,))
        assert (message.values == number).all()
    assert seats["worker0"].sent_bytes == seats["server0"].received_bytes == 3 * values.nbytes


def test_outlets_of_equal_shapes_do_not_mix_their_values(seats: Harness):
    for name in ("server0", "worker1"):
        seats[name]
    ones, twos = torch.ones(3), torch.full((3,), 2.0)
    to_server = seats["worker0"].outlet("server0", ones)
    to_worker = seats["worker0"].outlet("worker1", twos)
    to_server(1)
    to_worker(2)
    to_server(3)
    seats["worker0"].send("server0", twos, 4)
    got = [seats["server0"].receive() for _ in range(3)]
    assert [message.tag for message in got] == [1, 3, 4]
    assert [message.values.tolist() for message in got] == [[1] * 3, [1] * 3, [2] * 3]
    assert seats["worker1"].receive().values.tolist() == [2] * 3


@pytest.mark.parametrize("num_values", [4, NUM_LARGE])
def test_a_tensor_may_be_overwritten_as_soon_as_it_was_sent(seats: Harness, num_values: int):
    seats["server0"]
    values = torch.ones(num_values)
    for number in range(4):
        seats["worker0"].send("server0", values.fill_(number), number)
    values.fill_(-1)
    for number in range(4):
        assert (seats["server0"].receive().values == number).all()


@pytest.mark.parametrize("num_values", [0, 4, 100_000, NUM_LARGE])
def test_what_was_packed_once_is_posted_to_several_as_it_was(seats: Harness, num_values: int):
    names = ["server0", "worker1", "worker2"]
    for name in names:
        seats[name]
    values = torch.ones(num_values)
    parcel = seats["worker0"].packed(values)
    values.fill_(-1)
    for number, name in enumerate(names):
        seats["worker0"].post(name, parcel, number)
    for number, name in enumerate(names):
        message = seats[name].receive()
        assert (message.sender, message.tag, message.shape) == ("worker0", number, (num_values,))
        assert (message.values == 1).all()
        message.values.fill_(2)  # what one of them makes of it is its own affair
    assert seats["worker0"].sent_bytes == 3 * values.nbytes
    assert seats["worker0"].sent_to["worker1"] == values.nbytes


@pytest.mark.parametrize("num_values", [0, 4, 100_000, NUM_LARGE])
def test_what_is_lent_is_sent_each_time_as_it_is_then(seats: Harness, num_values: int):
    seats["server0"]
    values = torch.zeros(num_values)
    parcel = seats["worker0"].lent(values)
    for number in range(3):
        values.fill_(number)
        seats["worker0"].post("server0", parcel, number)
        message = seats["server0"].receive()
        values.fill_(-1)  # it has arrived
        assert (message.tag, message.shape) == (number, (num_values,))
        assert (message.values == number).all()


@pytest.mark.parametrize("num_values", [3, 1001, NUM_LARGE])
def test_a_message_is_passed_on_with_what_was_made_of_it(seats: Harness, num_values: int):
    seats["server0"], seats["worker1"]
    seats["worker0"].send("worker1", torch.arange(float(num_values)), tag=5)
    message = seats["worker1"].receive()
    message.values.add_(1)
    seats["worker1"].pass_on("server0", message)
    got = seats["server0"].receive()
    assert (got.sender, got.tag) == ("worker1", 5)
    assert torch.equal(got.values, torch.arange(1.0, num_values + 1))
    assert seats["worker1"].sent_bytes == seats["worker1"].sent_to["server0"] == 4 * num_values


def test_one_message_is_passed_on_to_several(seats: Harness):
    seats["server0"], seats["worker1"], seats["worker2"]
    seats["worker0"].send("server0", torch.arange(100_000.0))
    message = seats["server0"].receive()
    for name in ("worker1", "worker2"):
        seats["server0"].pass_on(name, message)
    for name in ("worker1", "worker2"):
        assert torch.equal(seats[name].receive().values, torch.arange(100_000.0))


def test_many_messages_of_several_senders_keep_each_senders_order(seats: Harness, in_thread):
    num_messages = 300
    workers = NAMES[:3]
    seats["server0"]

    def send_all(name: str) -> None:
        for number in range(num_messages):
            seats[name].send("server0", torch.tensor([number]), number)

    for name in workers:
        in_thread(lambda name=name: send_all(name))
    heard: dict[str, list[int]] = {name: [] for name in workers}
    for _ in range(num_messages * len(workers)):
        message = seats["server0"].receive()
        assert message.values.item() == message.tag
        heard[message.sender].append(message.tag)
    assert heard == {name: list(range(num_messages)) for name in workers}


def test_messages_go_both_ways_and_in_a_ring(seats: Harness):
    ring = NAMES[:3]
    for name in ring:
        seats[name]
    for name, following in zip(ring, [*ring[1:], ring[0]], strict=True):
        seats[name].send(following, torch.tensor([NAMES.index(name)]))
    for name, before in zip(ring, [ring[-1], *ring], strict=False):
        assert seats[name].receive().sender == before


def test_a_message_to_a_seat_that_comes_later_waits_for_it(seats: Harness):
    seats["worker0"].send("server0", torch.ones(3))
    assert seats["server0"].receive().values.tolist() == [1.0] * 3


def test_what_was_sent_before_closing_still_arrives(seats: Harness, in_thread):
    seats["server0"]
    values = torch.randn(1000)
    seats["worker0"].send("server0", values)
    in_thread(seats["worker0"].close)
    assert torch.equal(seats["server0"].receive().values, values)


def test_an_abort_ends_a_wait_and_names_the_cause(seats: Harness):
    seats.driver["worker0"].send(Abort("worker1 failed: it died"))
    with pytest.raises(Aborted, match="worker1 failed: it died"):
        seats["worker0"].receive()


def test_an_abort_reaches_a_seat_that_is_already_waiting(seats: Harness, in_thread):
    def wait() -> None:
        seats.lines["worker0"].send(Saved())
        with pytest.raises(Aborted, match="worker1 failed"):
            seats["worker0"].receive()

    in_thread(wait)
    assert seats.driver["worker0"].receive() == Saved()
    seats.driver["worker0"].send(Abort("worker1 failed"))


def test_a_driver_that_is_gone_ends_a_wait(seats: Harness):
    seats.driver["worker0"].close()
    with pytest.raises(Aborted, match="the driver is gone"):
        seats["worker0"].receive()


def test_the_end_of_the_run_ends_a_wait(seats: Harness):
    seats.driver["server0"].send(Finish())
    with pytest.raises(Finished):
        seats["server0"].receive()


def test_the_end_of_the_run_ends_a_wait_also_if_it_was_heard_before(seats: Harness):
    seats["server0"]
    seats.driver["server0"].send(Finish())
    seats.lines["server0"].wait(Finish)
    with pytest.raises(Finished):
        seats["server0"].receive()


def test_other_words_of_the_driver_do_not_end_a_wait(seats: Harness, in_thread):
    seats["server0"]
    seats.driver["server0"].send(Stop())
    in_thread(lambda: seats["worker0"].send("server0", torch.ones(1)))
    assert seats["server0"].receive().sender == "worker0"


# Beyond the common suite: what only a channel with sockets has to bear, should a seat of the run
# itself be damaged. Strangers do not get as far: test_strangers.py.


@pytest.fixture
def server() -> Iterator[Harness]:
    made = Zmq()
    made["server0"]
    yield made
    made.close()


@pytest.fixture
def damaged(server: Zmq) -> Iterator["zmq.Socket[bytes]"]:
    """A seat of the run that sends whatever it likes."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as made:
        made.setsockopt(zmq.LINGER, 0)
        server.credentials["worker1"].show(made, "server0")
        made.connect(server.addresses["server0"])
        yield made


def frame(sequence: int = 0, tag: int = 9, **changes: object) -> bytes:
    fields = {"run": RUN, "sender": "worker1", "dtype": "uint8", "shape": (4,)} | changes
    return wire.encode(wire.Kind(**fields), sequence, tag)


def absurd() -> bytes:
    """A header of no values in a shape that nobody could have."""
    head = bytearray(frame(shape=(0, 5)))
    head[40:48] = b"\xff" * 8
    return bytes(head)


FOREIGN = {
    "garbage": [b"GET / HTTP/1.1\r\n"],
    "nothing": [b""],
    "random": [bytes(range(wire.HEADER_BYTES)), b"1234"],
    "random in one part": [bytes(range(wire.HEADER_BYTES)) + b"1234"],
    "foreign run": [frame(run=b"another run's id"), b"1234"],
    "too short": [frame(), b"123"],
    "too long": [frame(), b"12345"],
    "too short in one part": [frame() + b"123"],
    "too long in one part": [frame() + b"12345"],
    "header only": [frame()],
    "values in both parts": [frame() + b"1234", b"1234"],
    "values cut in two": [frame() + b"12", b"34"],
    "three parts": [frame(), b"", b"1234"],
    "no values in many parts": [frame(), *[b""] * 10_000],
    "absurd empty shape": [absurd(), b""],
    "short header": [frame()[:-1], b"1234"],
    "short header in one part": [frame()[:-1]],
}


@pytest.mark.parametrize("parts", FOREIGN.values(), ids=list(FOREIGN))
def test_a_damaged_frame_is_dropped_counted_and_logged_and_the_channel_lives_on(
    server: Zmq, damaged: "zmq.Socket[bytes]", parts: list[bytes], caplog: pytest.LogCaptureFixture
):
    damaged.send_multipart(parts)
    damaged.send_multipart([frame(), b"1234"])  # well made, after it on the same connection
    with caplog.at_level(logging.WARNING):
        message = server["server0"].receive()
    assert (message.sender, message.tag) == ("worker1", 9)
    assert bytes(message.values.tolist()) == b"1234"
    assert server["server0"].dropped == 1
    assert server["server0"].received_bytes == 4
    assert len(caplog.records) == 1


def test_a_log_of_thousands_of_damaged_frames_is_short_and_counts_them(
    server: Zmq, damaged: "zmq.Socket[bytes]", in_thread, caplog: pytest.LogCaptureFixture
):
    def send_all() -> None:
        for _ in range(5000):
            damaged.send(b"noise")
        damaged.send_multipart([frame(), b"1234"])

    in_thread(send_all)
    with caplog.at_level(logging.WARNING):
        server["server0"].receive()
    assert server["server0"].dropped == 5000
    assert len(caplog.records) < 50


@pytest.mark.parametrize("num_bytes", [wire.PART_BYTES, wire.PART_BYTES + 1, 3 * wire.PART_BYTES])
def test_values_travel_in_parts_of_no_more_than_a_megabyte(server: Zmq, num_bytes: int):
    values = torch.arange(num_bytes, dtype=torch.int64).to(torch.uint8)
    assert max(map(len, wire.parts_of(memoryview(values.numpy())))) == wire.PART_BYTES
    assert torch.equal(arrived(server, values), values)


def test_a_message_in_one_part_is_taken_as_one_in_two(server: Zmq, damaged: "zmq.Socket[bytes]"):
    damaged.send(frame(sequence=1) + b"1234")
    damaged.send_multipart([frame(sequence=2), b"1234"])
    one, other = server["server0"].receive(), server["server0"].receive()
    assert one.memory == other.memory == b"1234"
    assert torch.equal(one.values, other.values)


def test_a_message_that_is_sent_again_is_taken_once(server: Zmq, damaged: "zmq.Socket[bytes]"):
    damaged.send_multipart([frame(sequence=5, tag=1), b"1234"])
    damaged.send_multipart([frame(sequence=5, tag=1), b"1234"])
    damaged.send_multipart([frame(sequence=6, tag=2), b"1234"])
    assert [server["server0"].receive().tag for _ in range(2)] == [1, 2]
    assert server["server0"].dropped == 1


def test_a_seat_that_never_stops_does_not_hide_the_end_of_the_run(
    server: Zmq, damaged: "zmq.Socket[bytes]", in_thread
):
    over = threading.Event()

    def shout() -> None:
        while not over.is_set():
            if damaged.poll(10, zmq.POLLOUT):
                damaged.send(b"noise")

    in_thread(shout)
    server.driver["server0"].send(Abort("worker1 failed"))
    try:
        with pytest.raises(Aborted, match="worker1 failed"):
            server["server0"].receive()
    finally:
        over.set()


def send_for_ever(channel: Channel) -> None:
    while True:
        channel.send("worker2", torch.ones(4))


def test_a_sender_whose_receiver_never_reads_is_released_by_an_abort(server: Zmq):
    server.driver["worker0"].send(Abort("server0 failed"))
    with pytest.raises(Aborted, match="server0 failed"):
        send_for_ever(server["worker0"])


def test_a_server_whose_worker_has_left_is_released_by_the_end_of_the_run(server: Zmq):
    server.driver["server0"].send(Finish())
    with pytest.raises(Finished):
        send_for_ever(server["server0"])


# Who sends while it listens.


def test_whoever_listens_can_be_woken_before_and_while_it_does(seats: Harness, in_thread):
    channel = seats["worker0"]
    channel.wake()
    assert channel.listen() is None
    in_thread(channel.wake)
    assert channel.listen() is None


def test_whoever_listens_hears_messages_whole_and_in_order(seats: Harness):
    sent = [torch.arange(3.0), torch.ones(0), torch.arange(NUM_LARGE, dtype=torch.float32)]
    heard = []
    sender, receiver = seats["worker1"], seats["server0"]
    waiting = [(number, sender.lent(values)) for number, values in enumerate(sent)]
    while len(heard) < len(sent):
        if waiting and sender.offer("server0", waiting[0][1], waiting[0][0]):
            waiting.pop(0)
        receiver.wake()
        if (message := receiver.listen()) is not None:
            heard.append(message)
    assert [message.tag for message in heard] == [0, 1, 2]
    assert all(torch.equal(one.values, other) for one, other in zip(heard, sent, strict=True))


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_few_offers_wait_for_a_seat_that_reads_nothing(kind: str):
    seats = KINDS[kind]()
    sender, receiver = seats["worker0"], seats["server0"]
    values = sender.lent(torch.ones(1 << 18))
    num_sent = 0
    while sender.offer("server0", values, num_sent):
        num_sent += 1
        assert num_sent < 200, "there is always room"
    for number in range(num_sent):
        assert receiver.receive().tag == number
    assert sender.listen(["server0"]) is None  # there is room again
    assert sender.offer("server0", values, num_sent)
    assert receiver.receive().tag == num_sent
    seats.close()
