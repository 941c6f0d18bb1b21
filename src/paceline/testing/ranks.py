"""Ranks as real processes that reduce something together: for tests and benchmarks."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final, get_args

from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.forming import Forming
from paceline.comm.credentials import Password
from paceline.comm.host_memory import Holdings, Host, close_holdings, make_holdings
from paceline.comm.line import Line, LineClosed
from paceline.comm.pair_line import PairLine
from paceline.comm.roster import Roster, Seat, Sitting
from paceline.comm.seat_line import SeatLine
from paceline.comm.vocabularies import FROM_DRIVER, FROM_WORKERS
from paceline.comm.words import Abort, Answered, Failed, Finish, Word
from paceline.comm.zmq import ZmqChannel
from paceline.seats import parsed, seat_name, worker_names
from paceline.system import linux

AllReduceKind = Literal[
    "ring", "ring-tcp", "halving", "shared", "hierarchical", "hierarchical-halving"
]
KINDS: Final[Sequence[AllReduceKind]] = get_args(AllReduceKind)
Body = Callable[[AllReduce], Any]
"""What every rank does; its answer must fit into JSON."""

_RANKS_PER_HOST: Final = 2


class RankFailed(Exception):
    """A rank raised something, or died."""


@final
@dataclass(frozen=True)
class _Ranks:
    """What every process knows of the group."""

    kind: AllReduceKind
    names: list[str]
    holdings: Mapping[str, Holdings]
    roster: Roster
    key: bytes
    room_bytes: int
    latency_s: float = 0.0

    def make(self, rank: int, line: SeatLine) -> AllReduce:
        name = self.names[rank]
        forming = Forming(
            name,
            open_channel=lambda: self._channel(rank, line),
            host=None if self.kind in {"ring", "ring-tcp", "halving"} else self._host(name, line),
            algorithm="halving" if self.kind.endswith("halving") else "ring",
        )
        return forming.form(self.roster, room_bytes=self.room_bytes)

    def _host(self, name: str, line: SeatLine) -> Host:
        neighbours = self.roster.neighbours(self.roster.node_of(name))
        return Host(name, {each: self.holdings[each] for each in neighbours}, line)

    def _channel(self, rank: int, line: SeatLine) -> ZmqChannel:
        name = self.names[rank]
        credentials = Password(name, self.key.hex().encode())
        return ZmqChannel(
            name,
            self.roster,
            self.key,
            line,
            credentials=credentials,
            latency_s=self.latency_s,
        )


def reduce_together(
    kind: AllReduceKind,
    num_ranks: int,
    body: Body,
    *,
    room_bytes: int = 0,
    tcp: bool = False,
    latency_s: float = 0.0,
) -> list[Any]:
    """Have so many processes do the same with an all-reduce of a kind; returns their answers.

    Messages go through sockets of this machine, or over TCP on loopback. When a rank fails or dies
    the others are told, as the driver of a run would tell them. With a latency every rank has a
    node of its own, and messages are held for that long.
    """
    names = worker_names(num_ranks)
    holdings = make_holdings(names)
    key = secrets.token_bytes(16)
    addresses = {name: f"ipc://@paceline-{key.hex()}-{name}" for name in names}
    if tcp or kind == "ring-tcp":
        addresses = dict(zip(names, _loopback_addresses(num_ranks), strict=True))
    per_host = _RANKS_PER_HOST if kind.startswith("hierarchical") else num_ranks
    if latency_s:
        per_host = 1
    sittings = (
        Sitting(seat=Seat(*parsed(name), f"node{rank // per_host}"), address=addresses[name])
        for rank, name in enumerate(names)
    )
    ranks = _Ranks(kind, names, holdings, Roster(tuple(sittings)), key, room_bytes, latency_s)
    started = [_fork(ranks, rank, body) for rank in range(num_ranks)]
    close_holdings(holdings)
    return _collect(started)


def _loopback_addresses(count: int) -> list[str]:
    """Ports that nobody used a moment ago."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in holders]
    for each in holders:
        each.close()
    return addresses


def _fork(ranks: _Ranks, rank: int, body: Body) -> tuple[int, Line]:
    mine, its = PairLine.pair()
    pid = os.fork()
    if pid:
        its.close()
        return pid, PairLine(mine, hears=FROM_WORKERS)
    mine.close()
    line = SeatLine(PairLine(its, hears=FROM_DRIVER))
    code = 1
    try:
        import torch

        torch.set_num_threads(1)
        linux.keep_freed_memory()
        line.send(Answered(body(ranks.make(rank, line))))
        line.wait(Finish)
        code = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        if not isinstance(error, LineClosed):
            traceback.print_exc()
        with contextlib.suppress(Exception):
            line.send(Failed(f"{type(error).__name__}: {error}"))
    finally:
        sys.stderr.flush()
        os._exit(code)


def _collect(started: list[tuple[int, Line]]) -> list[Any]:
    """Wait for every answer; the first failure is told to all, and raised."""
    answers: dict[int, Any] = {}
    errors: dict[int, str] = {}
    waiting = dict(enumerate(line for _, line in started))
    try:
        while waiting:
            for rank, line in list(waiting.items()):
                match _heard(line):
                    case Answered(value):
                        answers[rank] = value
                    case Failed(error):
                        errors[rank] = error
                        _tell([each for each in waiting.values() if each is not line], rank, error)
                    case _:
                        continue
                del waiting[rank]
    finally:
        for pid, line in started:
            with contextlib.suppress(LineClosed):
                line.send(Finish())
            _reap(pid)
            line.close()
    if errors:
        raise RankFailed(
            "; ".join(f"{seat_name('worker', rank)} {text}" for rank, text in errors.items())
        )
    return [answers[rank] for rank in range(len(started))]


def _heard(line: Line) -> Word | None:
    try:
        return line.receive(timeout_s=0.01)
    except LineClosed:
        return Failed("died")


def _tell(others: list[Line], rank: int, error: str) -> None:
    for other in others:
        with contextlib.suppress(LineClosed):
            other.send(Abort(f"{seat_name('worker', rank)} {error}"))


def _reap(pid: int) -> None:
    """Wait for a rank that was told to finish; one that does not hear is killed."""
    for _ in range(200):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        signal.sigtimedwait([], 0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
