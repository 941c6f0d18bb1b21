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
from typing import Any, Final, Literal, final

from paceline import linux
from paceline.comm.allreduce.base import AllReduce
from paceline.comm.allreduce.hierarchical import HierarchicalAllReduce
from paceline.comm.allreduce.ring import RingAllReduce
from paceline.comm.allreduce.shared import SharedAllReduce
from paceline.comm.credentials import Password
from paceline.comm.line import Line, LineClosed, SeatLine
from paceline.comm.shared import Holdings, Host, close_holdings, make_holdings
from paceline.comm.zmq import ZmqChannel

Kind = Literal["ring", "shared", "hierarchical"]
KINDS: Final[Sequence[Kind]] = ("ring", "shared", "hierarchical")
Body = Callable[[AllReduce], Any]
"""What every rank does; its answer must fit into JSON."""

_RANKS_PER_HOST: Final = 2


class RankFailed(Exception):
    """A rank raised something, or died."""


@final
@dataclass(frozen=True)
class _Ranks:
    """What every process knows of the group."""

    kind: Kind
    names: list[str]
    hosts: list[list[str]]
    holdings: Mapping[str, Holdings]
    addresses: dict[str, str]
    key: bytes
    room_bytes: int

    def make(self, rank: int, line: SeatLine) -> AllReduce:
        if self.kind == "shared":
            host = Host(self.names[rank], self.holdings, line)
            return SharedAllReduce(rank, self.names, host, self.room_bytes)
        if self.kind == "ring":
            return RingAllReduce(rank, self.names, self._channel(rank, line))
        return self._make_hierarchical(rank, line)

    def _make_hierarchical(self, rank: int, line: SeatLine) -> AllReduce:
        name = self.names[rank]
        mine = next(names for names in self.hosts if name in names)
        host = Host(name, {each: self.holdings[each] for each in mine}, line)
        within = SharedAllReduce(mine.index(name), mine, host, self.room_bytes)
        leaders = [names[0] for names in self.hosts]
        between = None
        if name in leaders:
            between = RingAllReduce(leaders.index(name), leaders, self._channel(rank, line))
        return HierarchicalAllReduce(rank, len(self.names), within, between)

    def _channel(self, rank: int, line: SeatLine) -> ZmqChannel:
        name = self.names[rank]
        credentials = Password(name, self.key.hex().encode())
        return ZmqChannel(name, self.addresses, self.key, line, credentials=credentials)


def reduce_together(
    kind: Kind, num_ranks: int, body: Body, *, room_bytes: int = 0, tcp: bool = False
) -> list[Any]:
    """Have so many processes do the same with an all-reduce of a kind; returns their answers.

    Messages go through sockets of this machine, or over TCP on loopback. When a rank fails or dies
    the others are told, as the driver of a run would tell them.
    """
    names = [f"worker{rank}" for rank in range(num_ranks)]
    hosts = [
        names[start : start + _RANKS_PER_HOST] for start in range(0, num_ranks, _RANKS_PER_HOST)
    ]
    holdings = make_holdings(names)
    key = secrets.token_bytes(16)
    addresses = {name: f"ipc://@paceline-{key.hex()}-{name}" for name in names}
    if tcp:
        addresses = dict(zip(names, _loopback_addresses(num_ranks), strict=True))
    ranks = _Ranks(kind, names, hosts, holdings, addresses, key, room_bytes)
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
    mine, its = Line.pair()
    pid = os.fork()
    if pid:
        its.close()
        return pid, Line(mine)
    mine.close()
    line = SeatLine(Line(its))
    code = 1
    try:
        import torch

        torch.set_num_threads(1)
        linux.keep_freed_memory()
        line.send("answer", value=body(ranks.make(rank, line)))
        line.wait("finish")
        code = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        if not isinstance(error, LineClosed):
            traceback.print_exc()
        with contextlib.suppress(Exception):
            line.send("failed", error=f"{type(error).__name__}: {error}")
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
                try:
                    message = line.receive(timeout_s=0.01)
                except LineClosed:
                    message = {"kind": "failed", "error": "died"}
                if message is None:
                    continue
                del waiting[rank]
                if message["kind"] == "answer":
                    answers[rank] = message["value"]
                    continue
                errors[rank] = message["error"]
                for other in waiting.values():
                    with contextlib.suppress(LineClosed):
                        other.send("abort", reason=f"worker{rank} {message['error']}")
    finally:
        for pid, line in started:
            with contextlib.suppress(LineClosed):
                line.send("finish")
            _reap(pid)
            line.close()
    if errors:
        raise RankFailed("; ".join(f"worker{rank} {text}" for rank, text in errors.items()))
    return [answers[rank] for rank in range(len(started))]


def _reap(pid: int) -> None:
    """Wait for a rank that was told to finish; one that does not hear is killed."""
    for _ in range(200):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        signal.sigtimedwait([], 0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
