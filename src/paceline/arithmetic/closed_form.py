"""Parameter servers by pencil and paper: for more nodes than are worth simulating, and to check.

A step is bounded by computing, and by what of the communication computing cannot hide.

- Without overlap the servers push when back-propagation has ended, so nothing is hidden. A chunk's
  new parameters leave while later chunks still arrive, and a link carries both ways at once: the
  exchange takes what the busiest node has to take in, plus one chunk of each worker's, which comes
  back after the last has arrived.
- With overlap it begins when the first gradient is finished, and what is left of it when the last
  has come is one chunk of each worker's.
- Answers to a push that counts as a whole come when all of it is in: nothing hides them but the
  forward pass, whose later layers may wait.
- What crosses racks is bounded by their uplinks in the same way.
- For asynchronous workers there are two answers: in step with each other, and spread.
"""

from __future__ import annotations

from paceline.arithmetic.costs import NO_COSTS, Costs
from paceline.arithmetic.exchange import CHUNK_BYTES, Servers
from paceline.arithmetic.network import LinkRate
from paceline.arithmetic.racks import NO_RACKS, RackLoad
from paceline.arithmetic.step import ComputeStep


def servers_step_s(
    step: ComputeStep,
    link: LinkRate,
    num_workers: int,
    exchange: Servers,
    *,
    costs: Costs = NO_COSTS,
    latency_s: float = 0.0,
    per_node: int = 1,
    racks: RackLoad = NO_RACKS,
) -> float:
    """Predict a step of workers in step with each other, given one of the slowest of them."""
    busiest = busiest_of(step, num_workers, exchange, per_node)
    processor_s = processor_s_of(step, exchange, num_workers, costs)
    if not busiest:
        return step.compute_s + processor_s
    exchanged_s = max(link.seconds(busiest), racks.exchanged_s, processor_s)
    after_s = link.seconds(_comes_after(step, num_workers, exchange, per_node))
    after_s = max(after_s, racks.after_s) + _ways(step) * latency_s
    if _is_whole(step, exchange):
        own_s = link.seconds(_own_bytes(step.num_bytes, num_workers, exchange, per_node))
        return _whole_push_s(step, own_s, exchanged_s) + 2 * latency_s
    return _hidden_s(step, exchange, exchanged_s) + after_s


def _ways(step: ComputeStep) -> int:
    """How many ways a step waits for: there and back, and so for rows before it begins."""
    return 2 if step.rows is None else 4


def _hidden_s(step: ComputeStep, exchange: Servers, exchanged_s: float) -> float:
    """Compute, and exchange what computing does not hide."""
    if not exchange.overlaps(step.num_bytes, has_rows=step.rows is not None):
        return step.compute_s + exchanged_s
    return max(step.compute_s, step.gradients[0].ready_s + exchanged_s)


def _is_whole(step: ComputeStep, exchange: Servers) -> bool:
    overlaps = exchange.overlaps(step.num_bytes, has_rows=step.rows is not None)
    return overlaps and exchange.whole and not exchange.averaged


def _own_bytes(num_bytes: int, num_workers: int, exchange: Servers, per_node: int) -> float:
    """What of a push leaves its worker's node: not the part of a server beside it."""
    has_beside = not exchange.apart and num_workers <= per_node * exchange.num_servers
    return num_bytes * (1 - 1 / exchange.num_servers) if has_beside else num_bytes


def _whole_push_s(step: ComputeStep, own_s: float, exchanged_s: float) -> float:
    """Push during back-propagation; answers come when all of it is in, first layers first.

    `own_s` is how long the worker's own push is on the link. `exchanged_s` is both ways: where a
    link carries only one of them, that is all of it, and an answer of the worker's own comes after.
    """
    pushed_s = max(step.compute_s, step.gradients[0].ready_s + max(own_s, exchanged_s - own_s))
    return pushed_s + _delay_s(step, own_s / (step.num_bytes or 1))


def _delay_s(step: ComputeStep, s_per_byte: float) -> float:
    """How much later a forward pass ends whose layers wait for their parameters, in their order."""
    came_s = computed_s = delay_s = 0.0
    for each in step.layers:
        came_s += each.num_bytes * s_per_byte
        delay_s = max(delay_s, came_s - computed_s)
        computed_s += each.forward_s
    return delay_s


def spread_steps_per_s(
    step: ComputeStep,
    link: LinkRate,
    num_workers: int,
    exchange: Servers,
    *,
    costs: Costs = NO_COSTS,
    latency_s: float = 0.0,
    per_node: int = 1,
    racks: RackLoad = NO_RACKS,
) -> float:
    """Predict the steps per second of workers that share one server and wait for none.

    While some exchange, others compute, until a link is full all the time. Those beside the server
    need no link, those of its rack no uplink.
    """
    sent_s = link.seconds(step.pushed_bytes)
    last = _last_answer(step, exchange)
    own_s = _hidden_s(step, exchange, sent_s) + link.seconds(last) + _ways(step) * latency_s
    if _is_whole(step, exchange):
        own_s = _whole_push_s(step, sent_s, sent_s) + 2 * latency_s
    processor_s = processor_s_of(step, exchange, num_workers, costs)
    beside = 0 if exchange.apart else per_node
    near = num_workers - beside - racks.outside
    per_s = beside / max(step.compute_s, processor_s)
    far_per_s = racks.outside / max(own_s, racks.exchanged_s, racks.outside * sent_s, processor_s)
    left_per_s = 1 / sent_s - far_per_s if sent_s else float("inf")
    return per_s + far_per_s + min(near / max(own_s, processor_s), max(0.0, left_per_s))


def _comes_after(step: ComputeStep, num_workers: int, exchange: Servers, per_node: int) -> float:
    """What of the answers is still to come when the busiest node has all gradients.

    One chunk of each worker's; where other servers' answers come into the same link, they are
    counted there already.
    """
    part = step.pulled_bytes / exchange.num_servers
    crossing = num_workers if exchange.apart else num_workers - per_node
    others = 0.0 if exchange.apart else per_node * (exchange.num_servers - 1) * part
    return max(0.0, crossing * _last_answer(step, exchange) - others)


def _last_answer(step: ComputeStep, exchange: Servers) -> float:
    """What of a worker's answer comes after all of its push is in: a chunk, and all rows."""
    rows = step.rows.received_bytes if step.rows else 0.0
    part = step.num_bytes / exchange.num_servers
    return min(exchange.chunk_of(step.num_bytes), part) + rows / exchange.num_servers


def processor_s_of(step: ComputeStep, exchange: Servers, num_workers: int, costs: Costs) -> float:
    """Say how long a server's processor is busy with one step of all workers."""
    sent, part = (each / exchange.num_servers for each in (step.pushed_bytes, step.pulled_bytes))
    dense = int(step.num_bytes / exchange.num_servers)
    num_chunks = max(1, -(-dense // exchange.chunk_of(step.num_bytes))) + bool(step.rows)
    messages_s = num_workers * (2 * num_chunks * costs.message_s + sent * costs.copy_s_per_byte)
    if not exchange.averaged:
        return messages_s + num_workers * part * costs.apply_s_per_byte
    adding_s = num_workers * part * costs.add_s_per_byte if num_workers > 1 else 0.0
    return messages_s + adding_s + part * costs.apply_s_per_byte


def ps_sync_step_s(
    step: ComputeStep,
    link: LinkRate,
    num_workers: int,
    *,
    num_servers: int = 1,
    separate: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    overlap: bool = False,
) -> float:
    """Predict a step of `ps-sync`; `separate` servers have nodes of their own."""
    exchange = Servers(
        num_servers=num_servers, apart=separate, chunk_bytes=chunk_bytes, overlap=overlap
    )
    return servers_step_s(step, link, num_workers, exchange)


def ps_async_steps_per_s(
    step: ComputeStep,
    link: LinkRate,
    num_workers: int,
    *,
    num_servers: int = 1,
    separate: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    spread: bool = False,
) -> float:
    """Predict the steps per second of all workers of `ps-async` together.

    Workers that take equally long and start together stay in step: they compute together, then
    share the server's link, as if they were synchronous. Nothing holds them there, and where their
    times vary they spread: while some exchange, others compute. `spread` gives the most that this
    can bring: each worker's own cycle, until the busiest link is full all the time.

    A worker beside the only server needs no link.
    """
    exchange = Servers(
        num_servers=num_servers, apart=separate, chunk_bytes=chunk_bytes, averaged=False
    )
    beside = 0 if separate or num_servers > 1 else 1
    crossing = num_workers - beside
    alone = beside / step.compute_s
    if not crossing:
        return alone
    last = min(exchange.chunk_of(step.num_bytes), step.num_bytes / num_servers)
    busiest = busiest_bytes(step.num_bytes, num_workers, exchange, 1)
    if spread:
        own_s = step.compute_s + link.seconds(step.num_bytes + last)
        return alone + crossing / max(own_s, link.seconds(busiest))
    return alone + crossing / (step.compute_s + link.seconds(busiest + crossing * last))


def busiest_of(step: ComputeStep, num_workers: int, exchange: Servers, per_node: int = 1) -> float:
    """How much the busiest node takes in or sends in a step, whichever is more."""
    return busiest_bytes(
        step.pushed_bytes, num_workers, exchange, per_node, back_bytes=step.pulled_bytes
    )


def busiest_bytes(
    num_bytes: float,
    num_workers: int,
    exchange: Servers,
    per_node: int = 1,
    *,
    in_turn: bool = False,
    back_bytes: float | None = None,
) -> float:
    """How much the busiest node takes in a step, and as much sends: a server's, or a worker's.

    `in_turn`: answers come only after all gradients, as those of a small model do, and so do not
    share the link with them. `back_bytes`: what is answered to all of a push, where that is less.
    """
    part = num_bytes / exchange.num_servers
    back = part if back_bytes is None else back_bytes / exchange.num_servers
    if exchange.apart:
        return max(num_workers * part, float(per_node * num_bytes))
    # Beside workers, which exchange with the other servers.
    others, crossing = per_node * (exchange.num_servers - 1), num_workers - per_node
    into = crossing * part + (0.0 if in_turn else others * back)
    server = max(into, others * part + (0.0 if in_turn else crossing * back))
    worker = float(per_node * num_bytes) if num_workers > per_node * exchange.num_servers else 0.0
    return max(server, worker)
