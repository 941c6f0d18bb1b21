"""A worker whose model, data and loop are a user's script.

It takes its place where the script calls `paceline.wrap`: until then the run knows nothing of what
is trained. Servers run the script up to there, and so hold the same optimizers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, Final, final

import torch

from paceline.clusters.base import Berth
from paceline.comm import words
from paceline.engine.row_writer import RowWriter
from paceline.engine.scripted.dealing import Dealer
from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.early import EarlySteps
from paceline.engine.scripted.exchanges import Exchange
from paceline.engine.scripted.loaders import dealt
from paceline.engine.scripted.objects import Objects
from paceline.engine.scripted.own_session import OwnSession
from paceline.engine.scripted.recording import OwnCompute, ScriptRecords
from paceline.engine.scripted.running import run_script
from paceline.engine.scripted.seating import exchange_of, place_of, take_first_values
from paceline.engine.scripted.session import ScriptSession
from paceline.engine.scripted.sharing import EvaluatedPart, rows_of
from paceline.engine.scripted.unwrapped import UnwrappedRun, refusing_groups
from paceline.errors import LoopError, RunError, ScriptFailed
from paceline.measure.clock import Clock
from paceline.measure.process_usage import peak_bytes
from paceline.measure.recorder import Recorder
from paceline.measure.thread_usage import ThreadUsage
from paceline.outcome.accounts import WorkerAccount, account_of
from paceline.outcome.results import OPTIMIZER_STATES
from paceline.scripting.current import ScriptRun
from paceline.spec import RunSpec
from paceline.strategies.base import Place

# How long a worker that lost another waits for the driver to name it.
_PATIENCE_S: Final = 4.0
_NO_LOADER: Final = (
    "paceline.wrap was given no loader, so every worker trains on all rows that the script reads, "
    "unless it deals them out by paceline.rank() and paceline.num_workers()"
)
# Of an error, in a warning.
_MOST_SAID: Final = 1000


def work(berth: Berth, spec: RunSpec) -> None:
    """Be a worker whose loop is a script."""
    worker = ScriptWorker(berth, spec)
    if spec.strategy.scripts == "own":
        _watch(berth, spec, worker)
        return
    try:
        with refusing_groups(spec.strategy.name), worker.early.counting():
            run_script(spec, worker)
        worker.end()
    finally:
        worker.close()


def _watch(berth: Berth, spec: RunSpec, worker: ScriptWorker) -> None:
    """Be a worker whose script exchanges by itself."""
    own = UnwrappedRun(berth, spec, worker)
    try:
        with own.watching():
            run_script(spec, own)
        own.end()
    finally:
        own.close()


@final
class ScriptWorker(ScriptRun):
    """One worker of a run, as its script sees it."""

    def __init__(self, berth: Berth, spec: RunSpec) -> None:
        self._berth = berth
        self._spec = spec
        self._line = berth.line
        self.rank = berth.seat.index
        self.is_main = self.rank == 0
        self.num_workers = spec.num_workers
        self._session: ScriptSession | OwnSession | None = None
        self._found: dict[str, float] | None = None
        self._said: set[str] = set()
        self._evaluated_at = -1
        self._late_error: str | None = None
        self._error_in_evaluation: BaseException | None = None
        self.early = EarlySteps()

    def wrap(self, objects: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._session is not None:
            raise LoopError("paceline.wrap was called twice: give it everything at once")
        self._objects = found = Objects.sorted(objects)
        self.early.refuse(found.optimizers)
        self._exchange = exchange_of(self._spec, found)
        self._place = place = place_of(self._berth, self._spec, found, self._exchange)
        stream = torch.get_rng_state()
        take_first_values(place, found, stream)
        self._exchange.join(place, self._spec.strategy.join)
        self._records = ScriptRecords(self._spec, self._row_writer())
        self._session = session = ScriptSession(
            self._spec, found, self._exchange, self._records, say=self.say
        )
        self._draws = SharedDraws(stream)
        dealer = Dealer(self.rank, self.num_workers, self._draws)
        given = found.with_loaders(lambda each: dealt(each, dealer, session))
        if self.rank:  # workers start alike, but what they draw while training must differ
            torch.manual_seed(torch.initial_seed() + self.rank)
        if self.num_workers > 1 and not found.loaders:
            self.say(_NO_LOADER)
        self._start()
        session.begin()
        return given

    def take_part(self, place: Place, exchange: Exchange, session: OwnSession) -> None:
        """Begin with a script that exchanges by itself; nothing of it is wrapped."""
        self._objects = Objects((), (), (), ())
        self._place, self._exchange, self._session = place, exchange, session
        session.records = self._records = ScriptRecords(self._spec, self._row_writer())
        self._start(session.batch)

    def _row_writer(self) -> RowWriter:
        self._recorder = Recorder(
            self._berth.sink,
            keeps_rows=self._spec.record.steps,
            keeps_losses=self._spec.record.loss == "all",
        )
        self._clock = Clock(1.0, self._line.clock)
        return RowWriter(
            self._recorder,
            clock=self._clock,
            line=self._line,
            sink=self._berth.sink,
            member=self._exchange.member,
            compute=OwnCompute(),
            profile=None,
        )

    def _start(self, batch: int | None = None) -> None:
        """Say that all is ready here, and wait for the others."""
        modules = self._objects.modules
        has_buffers = any(True for module in modules for _ in module.buffers())
        batches = (getattr(each, "batch_size", None) for each in self._objects.loaders)
        batch = next((each for each in batches if isinstance(each, int)), batch)
        self._line.send(words.Joined(data="the script's own", has_buffers=has_buffers, batch=batch))
        start = self._line.wait(words.Start)
        self._place.start_counting()
        self._clock.start(start.start_s)
        self._usage = ThreadUsage(is_alone=not self._spec.cluster.shares_process)

    def say(self, note: str) -> None:
        """Print something once, in this seat's log; worker 0's is shown."""
        if note not in self._said:
            self._said.add(note)
            print(f"paceline: {note}")  # noqa: T201 - this is the seat's own log

    def log(self, metrics: Mapping[str, Any]) -> None:
        values = {name: _number(name, value) for name, value in metrics.items()}
        if self._found is not None:
            self._found.update(values)
            return
        session = self._session
        if session is None:
            raise LoopError("paceline.log was called before paceline.wrap")
        if "loss" in values:
            session.log_loss(values.pop("loss"))
        if values and self.is_main:
            self._line.send(words.Logged(metrics=values, progress=self._progress()))

    def _progress(self) -> int:
        shared = self._exchange.member.global_steps
        assert self._session is not None
        return self._session.num_steps if shared is None else shared

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        session = self._session
        with contextlib.nullcontext() if session is None else session.no_sync():
            yield

    @contextlib.contextmanager
    def evaluating(self, *, shared: bool) -> Iterator[None]:
        session = self._session
        if session is None or self._found is not None:
            yield
            return
        if session.last and session.num_steps == self._evaluated_at:
            with self._looking(session, {}):  # nothing was learnt since: it only comes to its end
                yield
            return
        self._evaluated_at = session.num_steps
        session.pause()
        began_ns = perf_counter_ns()
        self._line.send(words.Paused(self._progress(), shares=shared and self._can_share))
        error: BaseException | None = None
        with self._usage.left_out():
            word = self._attend(words.Resume, words.Evaluate, words.Settled)
            share, found, rows = self._share_of(word), dict[str, float](), 0
            try:
                with self._looking(session, found, share):
                    yield
                    rows = 0 if share is None else rows_of(share, found)
            except RunError:  # the run is over: there is no answer that the others wait for
                raise
            except BaseException as raised:  # noqa: BLE001 - it is raised again
                # The script may catch it, or end as with sys.exit(0): then the others go on.
                error = raised
            resumed = self._answered(word, found, rows)
        self._go_on(session, resumed, began_ns)
        if error is not None:
            raise error

    def _answered(
        self, word: words.Word, found: Mapping[str, float], num_rows: int
    ) -> words.Resume:
        """Say what was found, where that is wanted of this worker, and wait until all go on."""
        if isinstance(word, words.Settle):
            self._line.send(words.Evaluated(dict(found), num_rows))
        while not isinstance(word, words.Resume):
            if isinstance(word, words.Evaluate):
                self._line.send(words.Evaluated(dict(found)))
            word = self._attend(words.Resume, words.Evaluate)
        return word

    def _go_on(
        self, session: ScriptSession | OwnSession, resumed: words.Resume, began_ns: int
    ) -> None:
        """Train on after an evaluation, which no clock has seen."""
        self._clock.leave_out(resumed.paused_s)
        self._records.leave_out(perf_counter_ns() - began_ns)
        if resumed.stop:
            session.stop()

    @property
    def _can_share(self) -> bool:
        """Whether all workers train one model: else that of worker 0 is evaluated."""
        return self.num_workers > 1 and self._spec.strategy.scripts != "alone"

    def _share_of(self, word: words.Word) -> EvaluatedPart | None:
        """Give the share of an evaluation that the driver has this worker do."""
        if not isinstance(word, words.Settle):
            return None
        if any(True for module in self._objects.modules for _ in module.buffers()):
            self.say("in a shared evaluation each worker's models have its own buffers")
        return EvaluatedPart(word.among.index(self._place.name), len(word.among), self._draws)

    @contextlib.contextmanager
    def _looking(
        self,
        session: ScriptSession | OwnSession,
        found: dict[str, float],
        share: EvaluatedPart | None = None,
    ) -> Iterator[None]:
        """Gather what is logged while nothing is trained."""
        self._found = found
        session.is_evaluating, session.share = True, share
        try:
            with session.no_sync():
                yield
        except BaseException as error:
            self._error_in_evaluation = error
            raise
        finally:
            session.is_evaluating, session.share = False, None
            self._found = None

    def _attend(self, *until: type[words.Word]) -> words.Word:
        """Settle and save whenever asked, until one of these words comes.

        `Settled` among them: until this worker has settled for another, which evaluates meanwhile;
        or with others, to evaluate its share of what they all do: then gives that word.
        """
        while True:
            word = self._line.wait(words.Settle, words.Save, *until)
            if isinstance(word, until):
                return word
            if isinstance(word, words.Settle):
                self._exchange.member.is_looked_at = word.is_looked_at
                self._exchange.settle()
                self._line.send(settled := words.Settled())
                if words.Settled in until and word.is_looked_at == bool(word.among):
                    return word if word.among else settled
            else:
                self._save()
                self._line.send(words.Saved())

    def _save(self) -> None:
        """Keep the final parameters of all models."""
        from safetensors.torch import save_file

        modules = self._objects.modules
        if not modules:  # what a script that exchanges by itself has learnt, it keeps by itself
            return
        names = [""] if len(modules) == 1 else [f"{number}." for number in range(len(modules))]
        values = {
            f"{prefix}{key}": value.detach().clone().contiguous()
            for prefix, module in zip(names, modules, strict=True)
            for key, value in module.state_dict().items()
            if isinstance(value, torch.Tensor)
        }
        self._berth.sink.put("model", lambda path: save_file(values, path))

    def lost_peer(self, error: Exception) -> Exception | None:
        member = None if self._session is None else self._exchange.member
        if member is None or not member.is_lost_peer(error):
            return None
        if member.lost_peer() is None:  # the driver may know which seat is gone
            self._line.await_abort(_PATIENCE_S)
        return member.lost_peer() or error

    def is_done_before(self, error: Exception, said: str) -> bool:
        """Where a loader ended at the run's limit, a script may find fewer batches than it needs.

        What is raised while it evaluates has another cause.
        """
        session = self._session
        if not (isinstance(session, ScriptSession) and session.was_cut and session.num_steps):
            return False
        if error is self._error_in_evaluation:
            return False
        self._late_error = (
            f"its loader had ended with the run's last step, and then: {said[:_MOST_SAID]}"
        )
        return True

    def end(self) -> None:
        """The script has ended: tell the others and the driver, and be there until all have."""
        if self._session is None:
            raise ScriptFailed(
                "the script ended without calling paceline.wrap(model, optimizer, loader); if it "
                "has a process group of its own, give --strategy own"
            )
        self._session.end()
        self._line.send(words.Trained(account_of(WorkerAccount, self._totals())))
        self._attend(words.Finish)

    def _totals(self) -> dict[str, Any]:
        session, member = self._session, self._exchange.member
        assert session is not None
        return {
            "train_s": self._records.trained_s,
            **session.counted,
            "global_steps": member.global_steps,
            "note": self._note(session),
            "told_losses": self._recorder.has_losses,
            "final_loss": self._recorder.final_loss(),
            **session.sizes,
            "memory_peak_bytes": peak_bytes(),
            "odd_losses": self._recorder.num_odd,
            **self._usage.table(),
            **member.counted(),
            **self._place.refusals.table(),
            **self._place.counted(),
            OPTIMIZER_STATES: self._objects.values_per_parameter,
        }

    def _note(self, session: ScriptSession | OwnSession) -> str | None:
        notes = [session.note or self._lost_rows(), self._late_error]
        return "; ".join(each for each in notes if each) or None

    def _lost_rows(self) -> str | None:
        """Name the workers that were lost; the first of those that are left says it."""
        newest, name = self._place.newest_roster(), self._place.name
        if newest is None or newest.workers[:1] != (name,):
            return None
        lost = [each for each in self._place.roster.workers if each not in newest.workers]
        if not lost:
            return None
        return f"the rows dealt to {' and '.join(lost)} were left out from its loss on"

    def close(self) -> None:
        """Let go of what was opened."""
        if self._session is not None:
            self._session.let_go()
            self._exchange.member.close()


def _number(name: str, value: Any) -> float:
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise LoopError(f"paceline.log({name}=…) takes a number, not a {kind}") from None
