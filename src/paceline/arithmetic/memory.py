"""How much memory a node's values take; what layers keep while computing is not counted."""

from __future__ import annotations

from paceline.arithmetic.exchange import WINDOW, AllReducePattern, ExchangePattern, NoExchange


def node_bytes(
    exchange: ExchangePattern, model_bytes: int, *, num_states: int, workers: int, num_workers: int
) -> float:
    """Give the bytes of the fullest node: parameters, gradients, states, what waits.

    `num_states` is how many values an optimizer keeps for each parameter, `workers` how many sit on
    the node.
    """
    own = 2.0 * model_bytes
    if isinstance(exchange, NoExchange | AllReducePattern):
        return workers * (own + num_states * model_bytes)
    part = model_bytes / exchange.num_servers
    waiting = min(part, WINDOW * exchange.chunk_of(model_bytes)) * num_workers
    second = part * (1 + num_states) if exchange.overlap and exchange.averaged else 0.0
    server = part * (1 + num_states) + waiting + second
    return max(server, workers * own) if exchange.apart else server + workers * own
