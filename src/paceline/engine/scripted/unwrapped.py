"""A worker whose script makes its own process group, as under torchrun, and has no line of ours."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, final

import torch.distributed as dist

from paceline.clusters.base import Berth
from paceline.engine.scripted.exchanges import Alone
from paceline.engine.scripted.own_session import OwnSession
from paceline.errors import LoopError, ScriptFailed
from paceline.scripting.current import ScriptRun
from paceline.spec import RunSpec
from paceline.strategies.base import Place
from paceline.strategies.own_member import OwnMember
from paceline.training.finite import Refusals

if TYPE_CHECKING:
    from paceline.engine.scripted.worker import ScriptWorker

# How long a worker that lost another waits for the driver to name it.
_PATIENCE_S: Final = 4.0


@final
class UnwrappedRun(ScriptRun):
    """A run as such a script sees it, if it looks at all."""

    def __init__(self, berth: Berth, spec: RunSpec, worker: ScriptWorker) -> None:
        """`worker` takes part, once the script trains, as that of a wrapped script does."""
        self._line = berth.line
        self._worker = worker
        self.rank = berth.seat.index
        self.is_main = self.rank == 0
        self.num_workers = spec.num_workers
        exchange = Alone()
        self._place = place = _place(berth, spec, exchange)
        exchange.join(place, spec.strategy.join)
        assert isinstance(exchange.member, OwnMember)
        self._member = exchange.member
        self._session = OwnSession(
            spec,
            self._member,
            take_part=lambda: worker.take_part(place, exchange, self._session),
        )

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Have torchrun's variables in the environment, and see what the script does."""
        before = {name: os.environ.get(name) for name in self._member.environment}
        os.environ.update(self._member.environment)
        self._session.begin()
        try:
            yield
        finally:
            self._session.let_go()
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def wrap(self, objects: tuple[Any, ...]) -> tuple[Any, ...]:
        del objects
        raise LoopError(
            "paceline.wrap is for a strategy of Paceline's: give --strategy single, ring, ddp, "
            "ps-async, ps-sync, ps-ssp or solo; own is for a script that exchanges by itself"
        )

    def log(self, metrics: Mapping[str, Any]) -> None:
        if self._session.records is None:
            self._worker.say("what paceline.log is given before the first step is not kept")
        else:
            self._worker.log(metrics)

    def evaluating(self, *, shared: bool) -> contextlib.AbstractContextManager[None]:
        if shared:
            raise LoopError(
                "paceline.evaluating(shared=True): under the strategy own, rows are dealt out by "
                "the script itself; leave shared out, and average over its own process group"
            )
        if self._session.records is None:  # the clock does not go yet
            return contextlib.nullcontext()
        return self._worker.evaluating(shared=False)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        return self._session.no_sync()

    def lost_peer(self, error: Exception) -> Exception | None:
        member = self._member
        if not member.is_lost_peer(error):
            return None
        if member.lost_peer() is None:
            if ended := self._ended():
                return ended
            self._line.await_abort(_PATIENCE_S)  # the driver may know which seat is gone
        return member.lost_peer() or self._ended()

    def _ended(self) -> ScriptFailed | None:
        done = self._session.num_steps
        ended = [f"{name} after {steps} steps" for name, steps in self._member.ended().items()]
        if not ended:
            return None
        return ScriptFailed(
            f"it waited for others in step {done + 1}, but their scripts have ended: "
            f"{', '.join(ended)}"
        )

    def end(self) -> None:
        """The script has ended: be there until all have."""
        if self._session.records is None:
            raise ScriptFailed(
                "the script ended without a step of a torch optimizer, without paceline.wrap and "
                "without a model that torch.distributed trains"
            )
        self._worker.end()
        self._member.close()
        self._place.close()

    def close(self) -> None:
        self._member.close()


def _place(berth: Berth, spec: RunSpec, exchange: Alone) -> Place:
    return Place(
        name=berth.seat.name,
        roster=berth.line.roster(),
        replica=exchange.replica,
        optimizer=exchange.optimizer,
        learns=False,
        refusals=Refusals(spec.most_refused),
        most_steps=spec.steps,
        open_channel=berth.open_channel,
        address=berth.ticket.address,
    )


@contextlib.contextmanager
def refusing_groups(strategy: str) -> Iterator[None]:
    """Have a script that makes a process group, where it is to be wrapped, say what to do."""
    original: Callable[..., None] = dist.init_process_group

    def init_process_group(*arguments: Any, **options: Any) -> None:
        if options.get("store") is None and "RANK" not in os.environ:
            raise LoopError(
                "torch.distributed.init_process_group: a script with a process group of its own "
                f"runs with --strategy own, not {strategy}"
            )
        original(*arguments, **options)

    dist.init_process_group = init_process_group
    try:
        yield
    finally:
        dist.init_process_group = original
