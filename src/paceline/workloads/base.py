"""What a workload is, and how its rows are held."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, final

from paceline.description import Description
from paceline.training.answers import call, expect, shown
from paceline.training.metrics import Better
from paceline.training.optim import Optimizer, Sgd
from paceline.training.session import Session
from paceline.training.state import State, Stateful, StateReader
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.order import Order

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

ALL_CORES: Final = 1024
"""For `most_threads`: a workload that gains from as many threads as there are cores."""

FUNCTIONS: Final = ("model_fn", "dataset_fn", "optimizer_fn", "loss_fn")
"""Fields of a workload that name functions."""

Split = Literal["train", "test"]
Batch = Sequence["Tensor"]


@final
@dataclass(frozen=True, kw_only=True)
class Supply:
    """Which data a workload trains on, whether it is here, and how to get it."""

    data: str = "its own"
    here: str = "-"
    remedy: str = ""


class Data(Stateful, ABC):
    """Rows of one split, taken by number."""

    origin: str = ""
    """Where the rows come from, in words that are stored with the run's result."""

    gathers_early: ClassVar[bool] = False
    """Whether to take a batch only copies rows: it draws nothing at random and counts nothing. The
    next one is then gathered while a worker waits for others."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Tensor) -> Batch:
        """Gather the rows whose numbers are given, in that order."""

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        """Yield a worker's batches without end; override to read ahead, or to draw at random.

        Which rows they are, and from which batch on, `order.batches` and `order.draws` say. What
        is drawn for a row should follow from its position alone: a resumed run draws it again.
        """
        return (self.take(rows) for rows in order.batches(rank))

    def touched(self, batch: Batch) -> Tensor | None:
        """Say which rows of the model's `Rows` table the batch needs; None where there is none."""
        del batch
        return None

    def checksum(self) -> str | None:
        """Give a cheap sum by which machines see that they hold the same rows.

        Of a sample of the rows, first and last included; None where a row is not twice the same.
        """
        from paceline.workloads.checksum import checksum_of

        return checksum_of(self)

    def counted(self) -> Mapping[str, Any]:
        """Give what this worker has counted, for its totals.

        Known are `skipped_rows` (bad ones of its own batches), `left_out_rows` (bad ones that all
        workers left out when they read the same file) and `first_skipped` (where, and why).
        """
        return {}

    def state(self) -> State:
        """Give what was counted while batches were taken; where a worker stands is its order's."""
        return {}

    def load(self, state: State) -> None:
        with StateReader(state):
            pass


@final
class Tensors(Data):
    """Whole columns in memory; a batch is the same rows of each."""

    gathers_early: ClassVar[bool] = True

    def __init__(self, *columns: Tensor, origin: str = "") -> None:
        _check_columns(columns)
        self.columns = columns
        self.origin = origin

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: Tensor) -> Batch:
        return [column.index_select(0, rows) for column in self.columns]


def _check_columns(columns: Sequence[object]) -> None:
    """Whole columns have as many rows each; anything else would fail at some batch, or never."""
    import torch

    lengths = {
        len(each) if isinstance(each, torch.Tensor) and each.dim() else None for each in columns
    }
    if None in lengths or len(lengths) != 1:
        got = ", ".join(map(shown, columns)) or "nothing"
        raise TypeError(f"Tensors takes tensors with the same number of rows; got {got}")


@final
class Unread(Data):
    """The rows of a workload as replayed compute takes them: counted, but never read."""

    origin = "none: replayed compute reads no data"

    def __init__(self, workload: Workload, num_rows: int) -> None:
        self._workload = workload
        self._num_rows = num_rows

    def __len__(self) -> int:
        return self._num_rows

    def take(self, rows: Tensor) -> Batch:
        del rows
        return self._workload.example()

    def batches(self, order: Order, rank: int) -> Iterator[Batch]:
        del order, rank
        return itertools.repeat(())


class Workload(Description, ABC):
    """A model, its data, its loss and its metric: what is trained, whatever the architecture.

    Fields, written as in a dataclass, can be set with `--set workload.field=value`. A workload
    is created again in every process, so its methods must give the same answer in each: torch's
    random numbers are seeded before `model` is called.
    """

    default_optimizer: ClassVar[Optimizer] = Sgd(lr=0.01)
    default_batch: ClassVar[int] = 64
    most_threads: ClassVar[int | None] = None
    """How many threads the arithmetic gains from; None: not known, so it is measured."""
    is_script: ClassVar[bool] = False
    """Whether it is a script: then model, data and length are known only while it runs."""
    better: ClassVar[Mapping[str, Better]] = {}
    """Whether `higher` or `lower` is better of a metric of its own. Runs without accuracy are
    compared by the time to a level of the first one."""

    @staticmethod
    def from_torch(
        model_fn: Callable[[], nn.Module] | str,
        dataset_fn: Callable[[Split], Any] | str,
        optimizer_fn: Callable[[Iterator[nn.Parameter]], Any] | str = "torch.optim:SGD",
        loss_fn: Callable[[Tensor, Tensor], Tensor] | str = "torch.nn.functional:cross_entropy",
    ) -> Workload:
        """Make a workload of functions, which each process imports, or of their names.

        `dataset_fn` takes `train` or `test`; `optimizer_fn` takes parameters.
        """
        from paceline.workloads.from_torch import from_torch

        given = (model_fn, dataset_fn, optimizer_fn, loss_fn)
        return from_torch(dict(zip(FUNCTIONS, given, strict=True)))

    def usual_optimizer(self) -> Optimizer:
        """What it is trained with, unless a run says otherwise."""
        return self.default_optimizer

    @property
    def test_batch(self) -> int:
        """How many test rows go through the model at once: what its activations leave room for."""
        return 500

    @abstractmethod
    def model(self) -> nn.Module:
        """Make the model, freshly initialised."""

    @abstractmethod
    def data(self, split: Split, dtype: torch.dtype) -> Data:
        """Read the rows of a split, real numbers as `dtype`."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Compute a batch's mean loss: cross-entropy of (inputs, classes) unless overridden."""
        from torch.nn import functional

        inputs, classes = batch
        return functional.cross_entropy(model(inputs), classes)

    def gradients(self, model: nn.Module, batch: Batch) -> float | None:
        """Compute the loss and its gradients where they are a short formula; None: they are not.

        Adds to each parameter's `.grad` what back-propagation of `loss` would, in less time.
        """
        del model, batch
        return None

    @property
    def has_formula(self) -> bool:
        """Whether `gradients` may give some: a forward pass then overlaps with no exchange."""
        return type(self).gradients is not Workload.gradients

    def train(self, session: Session) -> None:
        """Make this worker's steps until the session says that the last was made.

        Override it for a loop of your own: what a session's methods do, and in which order they
        are called, is in `Session`.
        """
        while not session.last:
            batch = session.next_batch()
            session.compute(batch)
            session.exchange()
            session.pause()

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Compute means over a test batch, by any names; each can be a target.

        What has a value for each row is not a metric, but given to `joined_metrics` when all
        batches are through.
        """
        from torch.nn import functional

        inputs, classes = batch
        outputs = model(inputs)
        return {
            "accuracy": (outputs.argmax(1) == classes).double().mean(),
            "loss": functional.cross_entropy(outputs, classes),
        }

    def joined_metrics(self, columns: Mapping[str, Tensor]) -> dict[str, float]:
        """Compute what is no mean over batches, from what `metrics` gave as one value a row."""
        del columns
        return {}

    def prepare(self, progress: Progress) -> None:
        """Make what is made once and kept, before anything starts, and say how far it is."""

    def example(self) -> Batch:
        """Give a batch of one row, right in its shapes; override to do so without the data."""
        import torch

        rows = rows_of(self, "train", torch.float32)
        return rows.take(torch.zeros(1, dtype=torch.int64))

    def supply(self) -> Supply:
        """Say where the data stands, at a glance; reads none of it."""
        return Supply()

    def verify(self) -> None:
        """Look closely at the data once, before anything starts; raise `DataError` if it is bad."""

    def num_rows(self) -> int:
        """Count the training rows; override where that is cheaper than reading them."""
        import torch

        return len(rows_of(self, "train", torch.float32))


def rows_of(workload: Workload, split: Split, dtype: torch.dtype) -> Data:
    """Read the rows of a split; raises `WorkloadError` where a workload gives something else."""
    expected = "a paceline.Data, such as paceline.Tensors(inputs, classes)"
    where = call(workload, f"data({split!r}, dtype)")
    return expect(Data, workload.data(split, dtype), where, expected)  # type: ignore[type-abstract]


def formula_of(workload: Workload) -> Callable[[nn.Module, Batch], float | None] | None:
    """Give a workload's own `gradients`; None where it has none, so that no step asks for them."""
    return workload.gradients if workload.has_formula else None


def loop_of(workload: Workload) -> Callable[[Session], None]:
    """Give a workload's `train`; where a field has that name, as a path may, the usual loop."""
    return workload.train if has_own_loop(workload) else partial(Workload.train, workload)


def has_own_loop(workload: Workload) -> bool:
    """Whether a workload drives its session in a way of its own."""
    is_field = "train" in {each.name for each in fields(workload)}
    return not is_field and type(workload).train is not Workload.train
