"""A parameter server, event by event: for whatever has no closed form.

Every chunk is pushed through the sender's link and the receiver's, handled by a server one after
the other, and answered. Workers of a synchronous strategy whose nodes are alike do the same at the
same time: then one stands for all. Others are followed one by one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Final, final

from paceline.arithmetic.chunks import ChunkPlan, chunk_plans, dealt_plans
from paceline.arithmetic.exchange import IN_TRANSPORT, WINDOW
from paceline.arithmetic.layout import SeatGroup, groups_of
from paceline.arithmetic.network import HEADER_BYTES, Network
from paceline.arithmetic.pipes import Pipe
from paceline.arithmetic.setting import Setting, Simulated
from paceline.arithmetic.spread import drawn
from paceline.seats import seat_name

_STEPS: Final = 7
_LEFT_OUT: Final = 3
"""Steps at the beginning that are not counted: nothing is under way yet."""
_MOST_EVENTS: Final = 8_000
_MOST_TIMES: Final = 3
"""By how much more events there may be where some workers are much quicker than others."""
_LEAST_CHUNKS: Final = 4


@final
@dataclass(eq=False)
class _Server:
    number: int
    group: SeatGroup
    processor: Pipe
    pending: list[list[_Worker]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    kept: dict[int, list[int]] = field(default_factory=dict)
    """Chunks of pushes that are not whole yet, by their worker."""
    outgoing: dict[int, deque[tuple[_Worker, int]]] = field(default_factory=dict)
    """Answers that wait, by their worker: connections share a link fairly."""
    is_sending: bool = False


@final
@dataclass(eq=False)
class _Worker:
    group: SeatGroup
    num_workers: int
    per_node: int
    processor: Pipe
    slowness: float
    done: int = 0
    ends_s: list[float] = field(default_factory=list)
    version: int = 0
    missing: int = 0
    due: list[int] = field(default_factory=list)
    waiting: list[deque[int]] = field(default_factory=list)
    needed_at: dict[int, float] = field(default_factory=dict)
    """When the parameters that each layer waits for have come."""


Route = list[tuple[Pipe, float]]
"""Pipes, and how much goes through each."""
Trip = tuple[_Worker, _Server, int]
"""Between whom, and of which chunk."""


@final
class Simulation:
    """Follows all chunks for a few steps."""

    def __init__(self, setting: Setting, most_events: int = _MOST_EVENTS) -> None:
        self._setting = setting
        exchange, network = setting.exchange, setting.network
        step, alike = setting.step, setting.is_alike and not setting.deals_chunks
        self._overlaps = exchange.overlaps(step.num_bytes, has_rows=step.rows is not None)
        groups = groups_of(exchange, setting.num_workers, setting.num_nodes, alike=alike)
        self._workers = [each for group in groups for each in self._workers_of(group, alike=alike)]
        self._servers = [
            _Server(number, group, Pipe(seat_name("server", number), 1.0))
            for number, group in enumerate(each for each in groups if each.servers)
        ]
        self._num_steps, self._chunks = self._cut(most_events)
        self._servers_of = [
            self._servers if each.server is None else [self._servers[each.server]]
            for each in self._chunks
        ]
        self._num_pushes = sum(map(len, self._servers_of))
        self._num_of = Counter(each.number for servers in self._servers_of for each in servers)
        forward_s = [each.forward_s for each in reversed(step.layers)]
        self._forward_from = list(accumulate(forward_s))[::-1]
        """How long the forward pass takes from each layer on."""
        self._is_whole = self._overlaps and exchange.whole and not exchange.averaged
        self._needed = setting.num_workers - exchange.backup if exchange.averaged else 0
        self._out = {each.node: _link(network, each.node, "out of") for each in groups}
        self._in = {each.node: _link(network, each.node, "into") for each in groups}
        self._up, self._down = _uplinks(network, groups)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._held: list[_Worker] = []
        self._draw = drawn(() if setting.is_steady else setting.step.factors)
        self._num_behind = len(self._workers)
        """Workers that have yet to make their steps."""
        self._most_order = _MOST_TIMES * most_events
        for server in self._servers:
            server.pending = [[] for _ in self._chunks]
            server.counts = [0] * len(self._chunks)
            server.versions = [0] * len(self._chunks)
        for worker in self._workers:
            worker.due = [0] * len(self._servers)
            worker.waiting = [deque() for _ in self._servers]

    def _cut(self, most_events: int) -> tuple[int, list[ChunkPlan]]:
        """Say how many steps are followed, and the chunks of each: as many as there is time for."""
        step, exchange = self._setting.step, self._setting.exchange
        num_workers, num_servers = len(self._workers), len(self._servers)
        chunk_bytes = exchange.chunk_of(step.num_bytes)
        if 1 < num_servers == exchange.num_servers:
            num_steps = _LEFT_OUT + 2 if self._setting.is_alike else _STEPS
            most = most_events // (3 * num_workers * num_steps)
            return num_steps, dealt_plans(step, num_servers, chunk_bytes, most)
        links = num_workers * num_servers
        num_steps = _STEPS if links < most_events / 64 else _LEFT_OUT + 2
        most = max(_LEAST_CHUNKS, most_events // (3 * links * num_steps))
        return num_steps, chunk_plans(step, exchange.num_servers, chunk_bytes, most=most)

    def _workers_of(self, group: SeatGroup, *, alike: bool) -> list[_Worker]:
        if not group.workers:
            return []
        setting = self._setting
        own = setting.steady_slowness if setting.is_steady else setting.slowness_of
        slowness = own(group.node)
        if alike:
            count = group.count * group.workers
            return [_Worker(group, count, group.workers, Pipe("worker", 1.0), slowness)]
        return [_Worker(group, 1, 1, Pipe("worker", 1.0), slowness) for _ in range(group.workers)]

    def run(self) -> Simulated:
        """Simulate until every worker has made its steps."""
        for worker in self._workers:
            self._begin(worker, 0.0)
        events = self._events
        while events and self._num_behind and self._order < self._most_order:
            now_s, _, act, about = heappop(events)
            act(now_s, *about)
        return self._counted()

    def _counted(self) -> Simulated:
        to_s = max((each.ends_s[-1] for each in self._workers if each.ends_s), default=0.0)
        pipes = [*self._out.values(), *self._in.values(), *self._up.values()]
        pipes += [*self._down.values(), *(each.processor for each in self._servers)]
        return Simulated(
            worker_steps_per_s=sum(each.num_workers * _rate(each) for each in self._workers),
            busy={each.label: min(1.0, each.busy_s / (to_s or 1.0)) for each in pipes},
        )

    def _at(self, at_s: float, act: Callable[..., None], *about: Any) -> None:
        self._order += 1
        heappush(self._events, (at_s, self._order, act, about))

    def _travel(
        self, now_s: float, path: Route, ended_s: float, act: Callable[..., None], about: Trip
    ) -> None:
        """Go through the first pipe; into the next when something comes out of it."""
        while path:
            (pipe, amount), *path = path
            begins_s = max(now_s, pipe.free_s)
            ended_s = max(ended_s, pipe.take(now_s, amount))
            if path and begins_s > now_s:
                self._at(begins_s, self._travel, path, ended_s, act, about)
                return
        self._at(ended_s + self._setting.network.latency_s, act, *about)

    def _begin(self, worker: _Worker, now_s: float) -> None:
        """Begin a step whose parameters are there, or about to come layer by layer."""
        step, overlap = self._setting.step, self._overlaps
        factor = self._draw() * worker.slowness
        # A table's rows are asked for when the batch is known: there and back once more.
        fixed_s = step.fixed_s + (2 * self._setting.network.latency_s if step.rows else 0.0)
        needed_at = worker.needed_at if overlap else {}
        start_s = min(needed_at.values(), default=now_s) + fixed_s
        end_s = start_s + factor * self._forward_from[0]
        # What waits for a layer's parameters is that layer and those behind it.
        for layer, came_s in needed_at.items():
            end_s = max(end_s, came_s + factor * self._forward_from[layer])
        worker.needed_at = {}
        worker.missing = self._num_pushes
        whole_s = factor * (step.compute_s - step.forward_s)
        for index, chunk in enumerate(self._chunks):
            ready_s = end_s + (factor * chunk.after_forward_s if overlap else whole_s)
            servers = self._servers_of[index]
            # Connections share a link fairly. One after the other in the same order, all workers
            # would be at the same server at once: each begins at its own place.
            first = worker.group.node % len(servers)
            for server in (*servers[first:], *servers[:first]):
                self._at(ready_s, self._push, worker, server, index)

    def _push(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        if worker.due[server.number] >= (IN_TRANSPORT if self._overlaps else WINDOW):
            worker.waiting[server.number].append(index)
        else:
            self._send(now_s, worker, server, index)

    def _send(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        worker.due[server.number] += 1
        size = self._chunks[index].num_bytes
        away_servers, away_workers = _apart(worker, server)
        sent_s = worker.processor.take(
            now_s, server.group.count * server.group.servers * self._setting.costs.message_s
        )
        if away_workers:
            bytes_out = worker.per_node * away_servers * (size + HEADER_BYTES)
            bytes_in = server.group.servers * away_workers * (size + HEADER_BYTES)
            path = self._path(worker.group, server.group, bytes_out, bytes_in)
            self._travel(sent_s, path, sent_s, self._arrive, (worker, server, index))
        else:
            self._at(sent_s, self._arrive, worker, server, index)

    def _path(
        self, sender: SeatGroup, receiver: SeatGroup, bytes_out: float, bytes_in: float
    ) -> Route:
        path = [(self._out[sender.node], bytes_out), (self._in[receiver.node], bytes_in)]
        here, there = (self._setting.network.rack_of(each.node) for each in (sender, receiver))
        if here != there:
            path[1:1] = [(self._up[here], bytes_out), (self._down[there], bytes_in)]
        return path

    def _arrive(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        if self._overlaps:
            self._send_next(now_s, worker, server)
        costs, size = self._setting.costs, self._chunks[index].num_bytes
        handled_s = worker.num_workers * costs.message(size)
        now_s = server.processor.take(now_s, handled_s)
        if self._is_whole:
            self._arrive_for_whole(now_s, worker, server, index)
            return
        if not self._setting.exchange.averaged:
            values = self._chunks[index].back_bytes
            applied_s = worker.num_workers * values * costs.apply_s_per_byte
            self._answer(server.processor.take(now_s, applied_s), worker, server, index)
            return
        if worker.version < server.versions[index]:  # too late for its update
            self._answer(now_s, worker, server, index)
            return
        server.pending[index].append(worker)
        server.counts[index] += worker.num_workers
        if server.counts[index] >= self._needed:
            self._close(now_s, server, index)

    def _arrive_for_whole(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        """Keep a chunk until all of its push are in; answer then, first layers first."""
        kept = server.kept.setdefault(id(worker), [])
        kept.append(index)
        if len(kept) < self._num_of[server.number]:
            return
        del server.kept[id(worker)]
        for each in sorted(kept, reverse=True):
            size = self._chunks[each].num_bytes
            applied_s = worker.num_workers * size * self._setting.costs.apply_s_per_byte
            now_s = server.processor.take(now_s, applied_s)
            self._answer(now_s, worker, server, each)

    def _close(self, now_s: float, server: _Server, index: int) -> None:
        """All gradients of a chunk are in: add them, apply, answer."""
        costs, size = self._setting.costs, self._chunks[index].back_bytes
        adding_s = server.counts[index] * costs.add_s_per_byte if self._needed > 1 else 0.0
        now_s = server.processor.take(now_s, size * (adding_s + costs.apply_s_per_byte))
        members, server.pending[index] = server.pending[index], []
        server.counts[index] = 0
        server.versions[index] += 1
        for worker in members:
            self._answer(now_s, worker, server, index)

    def _answer(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        _, away_workers = _apart(worker, server)
        now_s = server.processor.take(now_s, worker.num_workers * self._setting.costs.message_s)
        if not away_workers:
            self._at(now_s, self._answered, worker, server, index)
        elif self._is_whole:
            server.outgoing.setdefault(id(worker), deque()).append((worker, index))
            if not server.is_sending:
                self._send_in_turn(now_s, server)
        else:
            self._send_answer(now_s, worker, server, index)

    def _send_in_turn(self, now_s: float, server: _Server) -> None:
        """Send one answer to each worker that waits for some, one after the other."""
        server.is_sending = bool(server.outgoing)
        if not server.outgoing:
            return
        key = next(iter(server.outgoing))
        waiting = server.outgoing.pop(key)
        worker, index = waiting.popleft()
        self._send_answer(now_s, worker, server, index)
        if waiting:
            server.outgoing[key] = waiting
        free_s = self._out[server.group.node].free_s
        self._at(max(now_s, free_s), self._send_in_turn, server)

    def _send_answer(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        size = self._chunks[index].back_bytes
        away_servers, away_workers = _apart(worker, server)
        bytes_out = server.group.servers * away_workers * (size + HEADER_BYTES)
        bytes_in = worker.per_node * away_servers * (size + HEADER_BYTES)
        path = self._path(server.group, worker.group, bytes_out, bytes_in)
        self._travel(now_s, path, now_s, self._answered, (worker, server, index))

    def _answered(self, now_s: float, worker: _Worker, server: _Server, index: int) -> None:
        """New parameters have come."""
        chunk, _number = self._chunks[index], server.number
        taken = server.group.count * server.group.servers
        now_s = worker.processor.take(now_s, taken * self._setting.costs.message(chunk.back_bytes))
        if not self._overlaps:
            self._send_next(now_s, worker, server)
        first = chunk.first_layer
        worker.needed_at[first] = max(worker.needed_at.get(first, 0.0), now_s)
        worker.missing -= 1
        if not worker.missing:
            self._end_step(now_s, worker)

    def _send_next(self, now_s: float, worker: _Worker, server: _Server) -> None:
        """There is room for a chunk more."""
        worker.due[server.number] -= 1
        waiting = worker.waiting[server.number]
        if waiting:
            # With overlap the first layers' go first: the next forward pass begins with them.
            index = waiting.pop() if self._overlaps else waiting.popleft()
            self._send(now_s, worker, server, index)

    def _end_step(self, now_s: float, worker: _Worker) -> None:
        worker.done += 1
        if self._setting.exchange.averaged:
            worker.version = max(max(each.versions) for each in self._servers)
        worker.ends_s.append(now_s)
        self._num_behind -= worker.done == self._num_steps
        self._held.append(worker)
        bound = self._setting.exchange.staleness
        slowest = min(each.done for each in self._workers)
        free = [each for each in self._held if bound is None or each.done - slowest <= bound]
        self._held = [each for each in self._held if each not in free]
        for each in free:
            self._begin(each, now_s)


def _rate(worker: _Worker) -> float:
    """Steps per second, the first ones left out where there are enough."""
    ends_s = worker.ends_s[min(_LEFT_OUT - 1, max(0, len(worker.ends_s) - 2)) :]
    if len(ends_s) < 2:
        return len(ends_s) / ends_s[-1] if ends_s else 0.0
    return (len(ends_s) - 1) / (ends_s[-1] - ends_s[0])


def _apart(worker: _Worker, server: _Server) -> tuple[int, int]:
    """Say how many servers of a group are on other nodes than a worker, and the other way round."""
    servers = server.group.count * server.group.servers
    if worker.group is not server.group:
        return servers, worker.num_workers
    return servers - server.group.servers, worker.num_workers - worker.per_node


def _link(network: Network, node: int, way: str) -> Pipe:
    return Pipe(f"link {way} node{node}", network.link_of(node).bytes_per_s, network.burst_s)


def _uplinks(network: Network, groups: list[SeatGroup]) -> tuple[dict[int, Pipe], dict[int, Pipe]]:
    if network.uplink is None:
        return {}, {}
    rate, racks = network.uplink.bytes_per_s, {network.rack_of(each.node) for each in groups}
    up = {rack: Pipe(f"uplink out of rack{rack}", rate) for rack in racks}
    down = {rack: Pipe(f"uplink into rack{rack}", rate) for rack in racks}
    return up, down
