"""A server whose parameters are a script's: it runs the script up to `paceline.wrap`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, final

import torch

from paceline.clusters.base import Berth
from paceline.comm import words
from paceline.comm.base import Finished
from paceline.engine.scripted.exchanges import ThroughServers
from paceline.engine.scripted.objects import Objects
from paceline.engine.scripted.running import run_script
from paceline.engine.scripted.seating import exchange_of, place_of, take_first_values
from paceline.engine.scripted.unwrapped import refusing_groups
from paceline.measure.thread_usage import ThreadUsage
from paceline.outcome.accounts import ServerAccount, account_of
from paceline.scripting.current import ScriptOver, ScriptRun
from paceline.spec import RunSpec


def serve(berth: Berth, spec: RunSpec) -> None:
    """Be a server of a script's parameters."""
    with refusing_groups(spec.strategy.name):
        run_script(spec, ScriptServer(berth, spec))


@final
class ScriptServer(ScriptRun):
    """A server: the script's part is to make models and optimizers."""

    is_main = False

    def __init__(self, berth: Berth, spec: RunSpec) -> None:
        self._berth = berth
        self._spec = spec
        self.rank = berth.seat.index
        self.num_workers = spec.num_workers

    def wrap(self, objects: tuple[Any, ...]) -> tuple[Any, ...]:
        berth, spec = self._berth, self._spec
        found = Objects.sorted(objects)
        exchange = exchange_of(spec, found)
        place = place_of(berth, spec, found, exchange)
        take_first_values(place, found, torch.get_rng_state())
        assert isinstance(exchange, ThroughServers)
        exchange.copy_in(exchange.replica.parameters)
        berth.line.send(words.Joined())
        usage = ThreadUsage(is_alone=True)
        counted: Mapping[str, Any] = {}
        try:
            counted = spec.strategy.serve(place)
        except Finished:
            pass
        finally:
            place.close()
        told = {**usage.table(), **counted, **place.counted()}
        berth.line.send(words.Served(account_of(ServerAccount, told)))
        raise ScriptOver

    def log(self, metrics: Mapping[str, Any]) -> None:
        del metrics

    def evaluating(self, *, shared: bool) -> contextlib.AbstractContextManager[None]:
        del shared
        return contextlib.nullcontext()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
