"""A line over TCP: what others see of it, and that it ends when the other host is gone."""

import contextlib
import dataclasses
import select
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from paceline.clusters.agents import ssh
from paceline.comm import cut_off, dialing
from paceline.comm.dialing import Unanswered, dial
from paceline.comm.line import MOST_BYTES, Garbled, LineClosed
from paceline.comm.offset import Offset
from paceline.comm.seat_line import SeatLine
from paceline.comm.secure_socket import FrameKind, SecureSocket
from paceline.comm.switchboard import Switchboard
from paceline.comm.tcp_line import TcpLine
from paceline.comm.vocabularies import FROM_DRIVER, FROM_WORKERS
from paceline.comm.words import Answered, Failed, Here, Paused, Saved, Start
from paceline.measure.clock import Clock
from tests.comm.calls import PATIENCE_S, Relay, answered, connected, let_in

PATTERN = "a secret that is easy to recognise " * 20
SO_ATTACH_FILTER = 26
DROP_ALL = b"\x06\x00\x00\x00" + bytes(4)  # in BPF: return 0


def wire(line: TcpLine) -> socket.socket:
    return line._end._socket


def cut(line: TcpLine) -> None:
    drop_all(wire(line))


def drop_all(end: socket.socket) -> None:
    """Have nothing reach an end any more, and its kernel acknowledge nothing."""
    import ctypes

    code = ctypes.create_string_buffer(DROP_ALL)
    program = struct.pack("HL", 1, ctypes.addressof(code))
    end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def test_nothing_on_the_way_can_be_read_and_what_was_changed_is_not_taken():
    relays = []

    def detour(invitation):
        relays.append(Relay(invitation))
        return dataclasses.replace(invitation, port=relays[0].port)

    with connected(detour) as (driver, seat):
        for mine, its in ((driver, seat), (seat, driver)):
            mine.send(Answered(PATTERN))
            assert its.receive(PATIENCE_S) == Answered(PATTERN)
        assert len(relays[0].seen) > 2 * len(PATTERN)
        assert PATTERN[:16].encode() not in relays[0].seen
        relays[0].damages = True
        seat.send(Saved())
        with pytest.raises(LineClosed):
            driver.receive(PATIENCE_S)
    relays[0].join()


def test_the_token_does_not_travel_in_clear():
    seen = []

    def detour(invitation):
        seen.extend([Relay(invitation), invitation.token])
        return dataclasses.replace(invitation, port=seen[0].port)

    with connected(detour):
        assert bytes.fromhex(seen[1]) not in seen[0].seen
        assert seen[1].encode() not in seen[0].seen
    seen[0].join()


@pytest.mark.parametrize("reset", [False, True], ids=["end of file", "reset"])
def test_the_end_of_a_process_is_heard_by_one_who_waits(reset: bool):
    with connected() as (driver, seat):
        for _ in range(2):
            seat.ask_for_clock()  # and is gone before it could be answered
        seat.send(Failed("x"))
        if reset:
            wire(seat).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire(seat).close()  # as the kernel does for whom it has killed
        poller = select.poll()
        poller.register(driver.fileno(), select.POLLIN)
        assert poller.poll(PATIENCE_S * 1000)
        assert driver.receive() == Failed("x")
        with pytest.raises(LineClosed):
            driver.receive()


CALLER = """
import sys
from paceline.comm.dialing import dial
from paceline.comm.invitation import Invitation
from paceline.comm.vocabularies import FROM_DRIVER
from paceline.comm.words import Here
line = dial(Invitation.read(sys.stdin.readline()), FROM_DRIVER)
line.send(Here(pid=len({"torch", "cryptography"} & set(sys.modules))))
line.receive()
"""


def test_a_process_that_shares_nothing_with_the_driver_calls_and_its_kill_is_heard():
    with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
        command = [sys.executable, "-c", CALLER]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
            process.stdin.write(board.invite("worker0").written() + "\n")
            process.stdin.flush()
            line = answered(board)
            assert line.receive(PATIENCE_S) == Here(pid=0)  # it needed neither
            process.kill()
            with pytest.raises(LineClosed):
                line.receive(PATIENCE_S)
            line.close()


@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "with words on their way"])
def test_hosts_that_are_cut_off_from_each_other_notice(is_idle: bool, monkeypatch):
    monkeypatch.setattr(cut_off, "_IDLE_S", 1)
    monkeypatch.setattr(cut_off, "_NUM_ASKED", 1)
    monkeypatch.setattr(cut_off, "UNHEARD_MS", 300)
    with connected() as ends:
        ends[0].send(Saved())
        assert ends[1].receive(PATIENCE_S) == Saved()
        for each in ends:
            cut(each)
        for each in [] if is_idle else ends:
            each.send(Saved())
        for each in ends:
            with pytest.raises(LineClosed):
                each.receive(PATIENCE_S)
            with pytest.raises(LineClosed):
                each.send(Saved())


def test_a_call_to_a_host_that_vanishes_meanwhile_ends_long_before_its_patience(monkeypatch):
    """It connected, and then nothing of what it sends arrives."""
    monkeypatch.setattr(cut_off, "UNHEARD_MS", 300)
    monkeypatch.setattr(dialing, "LOOK_EVERY_S", 0.1)
    with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
        invitation = board.invite("worker0")
        connect = dialing._connected

        def connected_and_cut(*asked):
            end = connect(*asked)
            drop_all(end._socket)
            return end

        monkeypatch.setattr(dialing, "_connected", connected_and_cut)
        with pytest.raises(Unanswered, match="its host is gone"):
            dial(invitation, FROM_WORKERS, timeout_s=3600)


def test_a_lost_host_is_noticed_in_time_by_all_that_looks_for_it():
    """The promise is 10 s: until an agent of a lost driver ends, and until a lost node is named."""
    asked_s = cut_off._IDLE_S + cut_off._NUM_ASKED * cut_off._BETWEEN_S
    unheard_s = cut_off.UNHEARD_MS / 1000 + dialing.LOOK_EVERY_S
    options = dict(each.split("=") for each in ssh._OPTIONS if "=" in each)
    ssh_s = int(options["ServerAliveInterval"]) * (int(options["ServerAliveCountMax"]) + 1)
    assert max(asked_s, unheard_s, ssh_s, dialing.CONNECTING_S) + 1 < 10
    assert int(options["ConnectTimeout"]) + 1 < 10


def fill(line):
    """Offer words until none is taken any more: for a while kernels move bytes, and make room."""
    for number in range(100_000):
        if not line.offer(Answered([number, "x" * 1000])):
            time.sleep(0.1)
            if not line._end.has_room():
                return
    raise AssertionError("a line that nobody reads takes words without end")


def test_one_who_reads_nothing_for_a_while_is_not_taken_for_gone(monkeypatch):
    monkeypatch.setattr(cut_off, "UNHEARD_MS", 50)
    with connected() as (driver, seat):
        fill(seat)
        until_s = time.monotonic() + 0.4
        while time.monotonic() < until_s:
            assert not seat.hang_up_if_cut_off()
            time.sleep(0.01)
        while (word := driver.receive(0.2)) is not None:
            assert isinstance(word, Answered)
        seat.send(Saved())
        assert driver.receive(PATIENCE_S) == Saved()


def test_words_of_several_threads_stay_whole_while_another_receives():
    num_words, num_threads = 60, 4
    with connected() as (driver, seat):

        def send_all(thread: int) -> None:
            for number in range(num_words):
                seat.send(Answered([thread, number, "x" * (MOST_BYTES // 2 >> number % 8)]))
                driver.send(Paused(number))

        threads = [threading.Thread(target=send_all, args=[each]) for each in range(num_threads)]
        for each in threads:
            each.start()
        heard = [driver.receive(PATIENCE_S) for _ in range(num_words * num_threads)]
        for each in threads:
            each.join()
        for thread in range(num_threads):
            mine = [word.value[1] for word in heard if word.value[0] == thread]
            assert mine == list(range(num_words))
        assert all(seat.receive(PATIENCE_S) for _ in heard)


def test_the_longest_word_is_offered_whole():
    longest = Answered("x" * (MOST_BYTES - len('{"kind":"answered","value":""}')))
    with connected() as (driver, seat):
        for _ in range(200):
            seat.offer(longest)
        seat.offer(Saved())
        num_heard = 0
        while (word := driver.receive(0.2)) is not None:
            assert word in {longest, Saved()}
            num_heard += 1
        assert num_heard
        assert not seat._end._unsent


def test_a_descriptor_is_readable_for_as_long_as_there_are_words():
    with connected() as (driver, seat):
        poller = select.poll()
        poller.register(driver.fileno(), select.POLLIN)
        for number in range(5):
            seat.send(Paused(number))
        for number in range(5):
            assert poller.poll(PATIENCE_S * 1000)
            assert driver.receive(0) == Paused(number)
        assert not poller.poll(0)


def say_raw(end: SecureSocket, plain: bytes) -> None:
    """Send anything, well encrypted."""
    end._tls.write(plain)
    end.flush()


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        (struct.pack("!IB", MOST_BYTES + 1, FrameKind.WORD), "more than the 131,072 allowed"),
        (struct.pack("!IB", 2**32 - 1, FrameKind.LAST), "more than the 131,072 allowed"),
        (struct.pack("!IB", 0, 99), "kind 99"),
        (struct.pack("!IB", 0, FrameKind.TOKEN), "kind TOKEN"),
        (struct.pack("!IB", 4, FrameKind.WORD) + b"\xff{{{", "no JSON"),
        (struct.pack("!IB", 17, FrameKind.WORD) + b'{"kind":"finish"}', "not one of"),
    ],
)
def test_one_who_was_let_in_and_says_what_is_never_said_is_not_heard(plain: bytes, told: str):
    with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
        rogue = let_in(board)
        line = answered(board, "rogue")
        say_raw(rogue, plain)
        with pytest.raises(Garbled, match=told):
            line.receive(PATIENCE_S)
        line.close()
        rogue.close()


def test_a_frame_that_comes_byte_by_byte_is_waited_for_and_one_that_is_cut_off_is_the_end():
    with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
        rogue = let_in(board)
        line = answered(board, "rogue")
        text = b'{"kind":"saved"}'
        for byte in struct.pack("!IB", len(text), FrameKind.WORD) + text:
            assert line.receive(0) is None
            say_raw(rogue, bytes([byte]))
        assert line.receive(PATIENCE_S) == Saved()
        say_raw(rogue, struct.pack("!IB", len(text), FrameKind.WORD) + text[:5])
        rogue.close()
        with pytest.raises(LineClosed):
            line.receive(PATIENCE_S)
        line.close()


SHIFT_S = 1000.0


def shifted() -> float:
    return time.monotonic() + SHIFT_S


def test_a_seat_on_a_machine_with_another_clock_trains_by_the_drivers():
    with connected(hears=FROM_DRIVER, clock=shifted) as (driver, line):
        assert driver.offset == Offset(0.0, 0.0)
        assert abs(line.offset.seconds - SHIFT_S) <= line.offset.uncertainty_s
        seat = SeatLine(line)
        clock = Clock(dilation=2.0, now=seat.clock)
        driver.send(Start(time.monotonic() - 40))
        start_s = seat.wait(Start).start_s
        clock.start(start_s)
        least_s = time.monotonic() - start_s - line.offset.uncertainty_s
        trained_s = clock.now_s() * 2.0
        assert least_s <= trained_s <= time.monotonic() - start_s + line.offset.uncertainty_s


def test_the_clock_is_asked_for_again_and_nobody_hears_of_it(monkeypatch):
    monkeypatch.setattr(dialing, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(dialing, "ASK_EVERY_S", 0.02)
    shift_s = [SHIFT_S]
    with connected(clock=lambda: time.monotonic() + shift_s[0]) as (driver, seat):
        shift_s[0] -= 300  # as if that machine had slept: a monotonic clock does not count it
        until_s = time.monotonic() + PATIENCE_S
        while abs(seat.offset.seconds - shift_s[0]) > seat.offset.uncertainty_s:
            assert driver.receive(0.005) is None
            assert seat.receive(0.005) is None
            assert time.monotonic() < until_s
        seat.send(Saved())
        assert driver.receive(PATIENCE_S) == Saved()


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (FrameKind.ASK, b"1234567"),
        (FrameKind.CLOCK, bytes(16)),  # the driver did not ask
        (FrameKind.READY, b""),
    ],
)
def test_what_is_wrong_about_clocks_is_not_heard(kind: FrameKind, content: bytes):
    with contextlib.closing(Switchboard(FROM_WORKERS)) as board:
        rogue = let_in(board)
        line = answered(board, "rogue")
        rogue.put(kind, content)
        with pytest.raises(Garbled):
            line.receive(PATIENCE_S)
        line.close()
        rogue.close()


@pytest.mark.parametrize("content", [bytes(15), struct.pack("!dd", 0.0, float("nan"))])
def test_a_clock_that_shows_no_number_is_not_believed(content: bytes):
    with connected() as (driver, seat):
        driver._end.put(FrameKind.CLOCK, content)
        with pytest.raises(Garbled, match="a clock"):
            seat.receive(PATIENCE_S)


def test_the_thread_of_a_caller_ends_with_its_line(monkeypatch):
    monkeypatch.setattr(dialing, "LOOK_EVERY_S", 0.01)
    before = set(threading.enumerate())
    with connected():
        mine = set(threading.enumerate()) - before
        assert sorted(each.name for each in mine) == ["line", "switchboard"]
    for each in mine:
        each.join(PATIENCE_S)
        assert not each.is_alive()
