"""A server's process: the strategy serves in it; its state is kept, and what it counted told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from paceline.clusters.base import Berth
from paceline.comm import words
from paceline.comm.base import Finished
from paceline.engine.restoring import States
from paceline.engine.seating import BUILDING, profile_of, take_place
from paceline.engine.server_returns import servers_return
from paceline.engine.upkeep import Upkeep, keep_on_request
from paceline.errors import StateError, WorkloadError
from paceline.measure.clock import virtual
from paceline.measure.thread_usage import ThreadUsage
from paceline.outcome.accounts import ServerAccount, account_of
from paceline.spec import RunSpec
from paceline.training.state import Adopting, Returning, State, Stateful

# How many chunks that arrive a profile covers.
_SERVED_IN_PROFILE: Final = 40


def serve(berth: Berth, spec: RunSpec) -> None:
    """Be a server of a run."""
    profile = profile_of(berth, spec, count=_SERVED_IN_PROFILE)
    upkeep, aside = Upkeep(berth.line, berth.sink), Upkeep(berth.line, berth.sink)
    with BUILDING:
        place = take_place(
            berth,
            spec,
            profile,
            opened=partial(_open, berth, spec, upkeep, aside),
            keep_snapshot=partial(aside.keep_unless_busy, "snapshot"),
        )
    berth.line.send(words.Joined(state=dict(place.state_sums)))
    berth.line.heed(words.Keep, partial(_refuse, spec.strategy.name))
    counted: Mapping[str, Any] = {}
    usage = ThreadUsage(is_alone=not spec.cluster.shares_process)
    try:
        counted = spec.strategy.serve(place)
    except Finished:
        pass
    finally:
        place.close()
    upkeep.close()
    aside.close()
    if profile is not None:
        start_s = berth.line.wait(words.Start).start_s
        profile.write(berth.line.clock() - start_s, spec.dilation)
    counted = {**usage.table(), **counted, **place.counted()}
    with naming_what_was_counted():
        account = account_of(ServerAccount, virtual(counted, spec.dilation))
    berth.line.send(words.Served(account))


def _refuse(strategy: str, word: words.Keep) -> bool:
    """Say that nothing can be kept, where a strategy's servers have not said what their state is.

    Everyone would wait for it otherwise.
    """
    del word
    reason = "its serve() did not call place.opened, so its servers cannot be saved"
    raise StateError("strategy", strategy, reason)


def _open(berth: Berth, spec: RunSpec, upkeep: Upkeep, aside: Upkeep, server: Stateful) -> None:
    """Have a server go on from its state, if there is one, and keep it when asked."""
    snapshot = States(berth).snapshot_of(berth.seat.name) if berth.ticket.incarnation else None
    resumed = berth.ticket.orders.resumed
    if resumed is not None and snapshot is None:
        _restore(server, States(berth).of(berth.seat.name), resumed.is_same_group)
    if berth.ticket.incarnation:
        assert isinstance(server, Returning), "it was started again"
        server.come_back(snapshot)
    if servers_return(spec) and isinstance(server, Returning):
        # The first snapshot is kept at once: a checkpoint that the run goes on from makes room for
        # newer ones, and the first copy of a large model takes much longer than those after it.
        aside.keep("snapshot", server.snapshot())
    if spec.checkpoint_every is not None:
        upkeep.prepare(server.state())
    keep_on_request(berth.line, upkeep, server)


def _restore(server: Stateful, state: State, is_same_group: bool) -> None:
    if is_same_group:
        server.load(state)
    elif isinstance(server, Adopting):
        server.adopt(state)
    else:
        reason = "cannot be resumed with another number of workers"
        raise StateError("num_workers", type(server).__name__, reason)


@contextlib.contextmanager
def naming_what_was_counted() -> Iterator[None]:
    """Say which value of a user's own class cannot be part of an account."""
    try:
        yield
    except ValueError as error:
        raise WorkloadError("counted()", "plain values of their types", str(error)) from error
