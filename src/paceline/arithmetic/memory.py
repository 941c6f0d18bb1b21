"""How much memory a node's values take; what layers keep while computing is not counted."""

from __future__ import annotations

from paceline.arithmetic.exchange import WINDOW, ExchangePattern, Servers
from paceline.arithmetic.step import ComputeStep


def node_bytes(
    exchange: ExchangePattern, step: ComputeStep, *, num_states: int, workers: int, num_workers: int
) -> float:
    """Give the bytes of the fullest node, at most: parameters, gradients, states, what waits.

    `num_states` is how many values an optimizer keeps for each parameter, `workers` how many sit on
    the node.
    """
    whole = step.with_whole_table()
    if not isinstance(exchange, Servers):
        return workers * (2.0 + num_states) * whole.num_bytes
    moved = step if exchange.moves_rows else whole
    part = whole.num_bytes / exchange.num_servers
    # What is applied before all workers said that they may has to be undone if one may not.
    before = part * (1 + num_states) if exchange.averaged and _overlaps(exchange, moved) else 0.0
    server = part * (1 + num_states) + num_workers * _waiting_bytes(exchange, moved) + before
    own = workers * 2.0 * moved.pulled_bytes
    return max(server, own) if exchange.apart else server + own


def _overlaps(exchange: Servers, step: ComputeStep) -> bool:
    return exchange.overlaps(step.num_bytes, has_rows=step.rows is not None)


def _waiting_bytes(exchange: Servers, step: ComputeStep) -> float:
    """What a server keeps of one worker's push, at most, until it is applied.

    With overlap chunks leave whether or not others were answered, and wait: for those of other
    workers, or for the word that all of the push is finite. So all of it may be there at once.
    """
    part = step.pushed_bytes / exchange.num_servers
    if _overlaps(exchange, step) or step.rows is not None:
        return part
    return min(part, WINDOW * exchange.chunk_of(step.num_bytes))
