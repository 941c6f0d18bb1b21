"""How a seat whose model is a script's takes its place in the strategy."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from paceline.arithmetic.exchange import chunk_bytes_of
from paceline.clusters.base import Berth
from paceline.engine.scripted.exchanges import Alone, Averaged, Exchange, ThroughServers
from paceline.engine.scripted.objects import Objects
from paceline.engine.scripted.sync import take_first, values_of
from paceline.engine.seating import next_rosters
from paceline.errors import LoopError
from paceline.spec import RunSpec
from paceline.strategies.base import Place
from paceline.strategies.parameter_server import cuts
from paceline.training.carried import trained_by
from paceline.training.finite import Refusals
from paceline.training.sliced import check_averaged, check_elementwise


def exchange_of(spec: RunSpec, objects: Objects) -> Exchange:
    """Make what exchanges these objects' gradients under the spec's strategy."""
    way, num_optimizers = spec.strategy.scripts, len(objects.optimizers)
    if num_optimizers > 1 and (why_one := spec.strategy.keeps_one_optimizer) is not None:
        raise LoopError(f"paceline.wrap was given {num_optimizers} optimizers: {why_one}")
    if way == "alone":
        return Alone()
    trained = trained_by(objects.modules, objects.optimizers, all_of_modules=way == "averaged")
    if way == "averaged":
        check_averaged(objects.optimizers, spec.strategy.name, spec.num_workers)
        return Averaged(
            trained, through_autograd=spec.strategy.needs_autograd, backward=torch.autograd.backward
        )
    check_elementwise(objects.optimizers, spec.strategy.name)
    strategy: Any = spec.strategy
    return ThroughServers(
        trained,
        partial(_cuts, strategy.num_servers, strategy.chunk_bytes, trained.dtype.itemsize),
        objects.names,
    )


def _cuts(
    num_servers: int, most_bytes: int, item_bytes: int, num_values: int
) -> list[tuple[int, int]]:
    """Say where servers and their chunks will cut a vector."""
    per_chunk = chunk_bytes_of(num_values * item_bytes, num_servers, most_bytes) // item_bytes
    dealt_out = cuts.dealt(num_values, num_servers, per_chunk)
    return sorted((chunk.start, chunk.stop) for chunks in dealt_out for chunk in chunks)


def place_of(berth: Berth, spec: RunSpec, objects: Objects, exchange: Exchange) -> Place:
    """Give a seat's place in the strategy, now that it is known what is trained."""
    return Place(
        name=berth.seat.name,
        roster=berth.line.roster(),
        replica=exchange.replica,
        optimizer=exchange.optimizer,
        learns=spec.strategy.scripts == "served",
        refusals=Refusals(spec.most_refused),
        # Servers count pushes, and one of several optimizers' is not a step.
        most_steps=spec.steps if len(objects.optimizers) == 1 else None,
        own_node=berth.host,
        open_channel=berth.open_channel,
        address=berth.ticket.address,
        survives=spec.goes_on,
        say_lost=berth.line.say_lost,
        newest_roster=lambda: berth.line.newest_roster,
        next_roster=next_rosters(berth.line, spec),
    )


def take_first_values(place: Place, objects: Objects, stream: torch.Tensor) -> None:
    """Continue with worker 0's parameters and buffers, and with its samplers' random numbers."""
    if place.num_workers + place.num_servers > 1:
        values = values_of(objects, [stream])
        take_first(place.channel, place.roster, place.name, values)
