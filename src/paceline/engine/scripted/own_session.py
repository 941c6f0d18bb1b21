"""The steps of a script that exchanges by itself: counted, timed and ended where all can end."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import torch.distributed as dist
from torch.optim import Optimizer

from paceline.engine.limits import NEVER
from paceline.engine.scripted.recording import ScriptRecords
from paceline.engine.scripted.watching import Watch, Watched
from paceline.errors import LoopError, ScriptFailed
from paceline.scripting.current import ScriptOver
from paceline.spec import RunSpec
from paceline.strategies.own_member import OwnMember


@final
class OwnSession(Watched):
    """One worker's steps, which are those of the first optimizer that steps."""

    def __init__(self, spec: RunSpec, member: OwnMember, take_part: Callable[[], None]) -> None:
        """`take_part` is called before the first step; it gives `records`."""
        self.num_steps = 0
        self.last = False
        self.is_evaluating = False
        self.share: None = None
        self.records: ScriptRecords | None = None
        self._spec = spec
        self._member = member
        self._take_part = take_part
        self._watch = Watch(self, spec.num_workers)
        self._most_steps = spec.steps or spec.worker_steps or NEVER
        self._most_samples = (spec.samples or math.inf) / spec.num_workers
        self._first: weakref.ref[Optimizer] | None = None
        self._parameter_bytes: dict[int, int] = {}
        self._exchanged_ns = 0
        self._has_wished = False
        self._end_after: int | None = None

    def begin(self) -> None:
        """Watch the script from now on."""
        self._watch.begin()

    def starts(self) -> None:
        self._take_part()
        assert self.records is not None
        self._member.start_counting()
        self.records.begin()

    @property
    def batch(self) -> int | None:
        """How many rows a batch has, once there was one."""
        return self._watch.batch

    def leaves_group(self) -> None:
        self._member.note_sent()

    def stepped(self, optimizer: Optimizer) -> None:
        if self._spec.num_workers > 1 and not dist.is_initialized():
            raise LoopError(
                f"it steps, but has no process group, so {self._spec.num_workers} copies of it "
                "would train without each other: call torch.distributed.init_process_group(), or "
                "paceline.wrap with another --strategy"
            )
        self._watch.start()
        self._note_parameters(optimizer)
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if self._first() is optimizer:
            self._count()

    def _note_parameters(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for each in group["params"]:
                self._parameter_bytes.setdefault(id(each), each.numel() * each.element_size())

    def _count(self) -> None:
        records, watch = self.records, self._watch
        assert records is not None
        self.num_steps += 1
        records.exchanging.total_ns += watch.exchange_ns
        self._exchanged_ns += watch.exchange_ns
        records.load_ns += watch.load_ns
        watch.exchange_ns = watch.load_ns = 0
        self._member.exchange(last=False)
        records.stepped(watch.num_samples)
        if self.num_steps >= self._most_steps or self._is_agreed(records):
            self.last = True
            raise ScriptOver

    def _is_agreed(self, records: ScriptRecords) -> bool:
        """Whether all workers end after this step: where one wishes to, the others soon will."""
        wishes = (
            self._has_wished
            or records.stop_wanted
            or self._watch.num_samples >= self._most_samples
            or (self._spec.seconds is not None and records.now_s() >= self._spec.seconds)
        )
        if wishes and self._end_after is None:
            self._end_after = self._member.agree_to_end(self.num_steps, said=self._has_wished)
            self._has_wished = True
        return self._end_after is not None and self.num_steps >= self._end_after

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Average nothing: the script's own wrapper does. What an evaluation takes is no step's."""
        watch = self._watch
        before = watch.load_ns, watch.exchange_ns
        try:
            yield
        finally:
            if self.is_evaluating:
                watch.load_ns, watch.exchange_ns = before

    def stop(self) -> None:
        """All workers have evaluated, and are to end."""
        self.last = True
        raise ScriptOver

    def pause(self) -> None:
        """Something else than training may follow."""
        if self.records is not None:
            self.records.flush(self._watch.num_samples)

    def log_loss(self, value: float) -> None:
        if self.records is not None:
            self.records.note_loss(value)

    def end(self) -> None:
        """The script has ended: say so to the others, and look whether it did anything."""
        self.let_go()
        if not self.num_steps:
            raise ScriptFailed("the script ended without a step of a torch optimizer")
        self.pause()
        self._member.end(self.num_steps, self._exchanged_ns / 1e9)

    def let_go(self) -> None:
        """Leave torch as it was."""
        self._watch.end()

    @property
    def note(self) -> str | None:
        """Say nothing: how it ended is in its log."""
        return None

    @property
    def counted(self) -> Mapping[str, Any]:
        return {"worker_steps": self.num_steps, "samples": self._watch.num_samples}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Give the size of what its optimizers step; it is also what DDP moves."""
        total = sum(self._parameter_bytes.values())
        return {
            "model_bytes": total,
            **({"parameter_bytes": total} if self._watch.calls_ddp else {}),
        }
