"""A script's loaders, dealt out: N workers at batch B see what one worker sees at N times B."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol, final

from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    Sampler,
    get_worker_info,
)

from paceline.engine.scripted.drawing import SharedDraws
from paceline.engine.scripted.sharing import EvaluatedPart
from paceline.errors import LoopError
from paceline.scripting.current import ScriptOver

# A loop that asks for so many epochs without getting a batch will never end by itself.
_MOST_EMPTY: Final = 10_000


class Turns(Protocol):
    """Whom a loader tells of its batches."""

    @property
    def is_over(self) -> bool:
        """Whether there is no next batch."""

    @property
    def is_evaluating(self) -> bool:
        """Whether batches are not trained on: then each worker that asks is given all rows."""

    @property
    def share(self) -> EvaluatedPart | None:
        """Which of them instead, where workers share an evaluation."""

    def load(self, batches: Iterator[Any]) -> Any:
        """Take the next batch, and note how long that took."""

    def pause(self) -> None:
        """Note that something else than training may follow."""

    def say(self, note: str) -> None:
        """Tell the user something, once."""


@final
class Dealer:
    """Which part of what there is a worker takes.

    What there is, is drawn from the random numbers of all, if there are such: indices only, since
    what becomes of rows, such as a random crop, may draw as many numbers as it likes.
    """

    def __init__(self, rank: int, num_workers: int, stream: SharedDraws | None = None) -> None:
        self.rank = rank
        self.num_workers = num_workers
        self.stream = stream if num_workers > 1 else None

    def _drawn(self, source: Iterable[Any], at_a_time: int) -> Iterable[Any]:
        return source if self.stream is None else self.stream.drawn(source, at_a_time)

    def slices(self, indices: Iterable[Any], batch: int) -> Iterator[Any]:
        """Yield this worker's part of every whole global batch."""
        first = self.rank * batch
        for each in self._rounds(indices, batch * self.num_workers):
            yield from each[first : first + batch]

    def every(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield every N-th, of whole rounds only."""
        for each in self._rounds(batches, self.num_workers):
            yield each[self.rank]

    def _rounds(self, source: Iterable[Any], size: int) -> Iterator[list[Any]]:
        rest = iter(self._drawn(source, size))
        while len(found := [*islice(rest, size)]) == size:
            yield found


@final
class DealtSampler(Sampler[Any]):
    """The user's own sampler, of which each worker takes its part."""

    def __init__(self, sampler: Any, batch: int, dealer: Dealer) -> None:
        self.sampler = sampler
        self._batch = batch
        self._dealer = dealer

    def __iter__(self) -> Iterator[Any]:
        return self._dealer.slices(self.sampler, self._batch)

    def __len__(self) -> int:
        whole: int = len(self.sampler) // (self._batch * self._dealer.num_workers)
        return whole * self._batch


@final
class DealtBatches(Sampler[Any]):
    """The same for a sampler that gives whole batches."""

    def __init__(self, sampler: Any, dealer: Dealer) -> None:
        self.sampler = sampler
        self._dealer = dealer

    def __iter__(self) -> Iterator[Any]:
        return self._dealer.every(self.sampler)

    def __len__(self) -> int:
        whole: int = len(self.sampler) // self._dealer.num_workers
        return whole


@final
class DealtItems(IterableDataset[Any]):
    """An iterable dataset, of which each worker keeps its part."""

    def __init__(self, dataset: IterableDataset[Any], batch: int, dealer: Dealer) -> None:
        self.dataset = dataset
        self._batch = batch
        self._dealer = dealer

    def __iter__(self) -> Iterator[Any]:
        dealer = self._dealer
        if get_worker_info() is not None:  # processes of a loader draw the same by their seeds
            dealer = Dealer(dealer.rank, dealer.num_workers)
        return dealer.slices(self.dataset, self._batch)


@final
class Loader(DataLoader[Any]):
    """A script's DataLoader in a run: the same, of one worker's rows, until the run is over."""

    def __init__(
        self,
        given: DataLoader[Any],
        sampling: dict[str, Any],
        *,
        turns: Turns,
        dealer: Dealer,
    ) -> None:
        # Not through the class: a DataLoader watches over what is set on it.
        self.__dict__.update(_given=given, _turns=turns, _stream=dealer.stream, _num_empty=0)
        self.__dict__["_dropped"] = _dropped(given, dealer)
        super().__init__(**{**_options(given), **sampling})

    def __iter__(self) -> Any:
        turns, stream = self.__dict__["_turns"], self.__dict__["_stream"]
        if turns.is_evaluating:
            return _evaluated(self.__dict__["_given"], turns.share)
        if turns.is_over:
            _note_empty(self)
            return iter(())
        if self.__dict__["_dropped"] is not None:  # what only evaluates has all its rows
            turns.say(self.__dict__["_dropped"])
        with contextlib.nullcontext() if stream is None else stream:  # it draws a seed of its own
            batches = super().__iter__()
        return _counted(batches, turns)

    def __len__(self) -> int:
        turns = self.__dict__["_turns"]
        if turns.is_evaluating:
            return _num_evaluated(self.__dict__["_given"], turns.share)
        return super().__len__()

    @property
    def dataset(self) -> Any:
        """The script's own; of a worker's share while it evaluates one, since sums are divided
        by its length.
        """
        given, share = self.__dict__["_given"], self.__dict__["_turns"].share
        if share is None or _is_left_alone(given):
            return self.__dict__["_dataset"]
        return share.subset(given.dataset)

    @dataset.setter
    def dataset(self, dataset: Any) -> None:
        self.__dict__["_dataset"] = dataset


def _options(given: DataLoader[Any]) -> dict[str, Any]:
    options = {name: getattr(given, name) for name in _KEPT if hasattr(given, name)}
    if not given.num_workers:
        for name in _WITH_WORKERS:
            options.pop(name, None)
    return {"dataset": given.dataset, **options}


def _is_left_alone(given: DataLoader[Any]) -> bool:
    return isinstance(given.dataset, IterableDataset) or _is_sharded(given)


def _evaluated(given: DataLoader[Any], share: EvaluatedPart | None) -> Iterator[Any]:
    """Read all rows, or a worker's share of them."""
    if share is None:
        return iter(given)
    if _is_left_alone(given):
        return share.counted(given if _is_sharded(given) else share.every(given), rows_in)
    options = {**_options(given), **share.sampling(given)}
    if given.num_workers:
        options["persistent_workers"] = False  # these rows are read once
    return share.counted(share.begun(DataLoader(**options)), rows_in)


def _num_evaluated(given: DataLoader[Any], share: EvaluatedPart | None) -> int:
    if share is None or _is_sharded(given):
        return len(given)
    if isinstance(given.dataset, IterableDataset):
        return share.num_of(len(given))
    return share.num_batches(given)


def _note_empty(loader: Any) -> None:
    loader.__dict__["_num_empty"] += 1
    if loader.__dict__["_num_empty"] > _MOST_EMPTY:
        raise ScriptOver


def _counted(batches: Iterator[Any], turns: Turns) -> Iterator[Any]:
    while not turns.is_over:
        try:
            batch = turns.load(batches)
        except StopIteration:
            break
        yield batch
    turns.pause()


_KEPT: Final = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
)
_WITH_WORKERS: Final = (
    "prefetch_factor",
    "persistent_workers",
    "timeout",
    "multiprocessing_context",
)


@final
class Passed:
    """Any other iterable of batches, of which each worker takes every N-th."""

    def __init__(self, given: Iterable[Any], dealer: Dealer, turns: Turns) -> None:
        self._given = given
        self._dealer = dealer
        self._turns = turns
        self._num_empty = 0

    def __iter__(self) -> Iterator[Any]:
        if self._turns.is_evaluating:
            share = self._turns.share
            if share is None:
                return iter(self._given)
            return share.counted(share.every(self._given), rows_in)
        if self._turns.is_over:
            _note_empty(self)
            return iter(())
        return _counted(self._dealer.every(self._given), self._turns)

    def __len__(self) -> int:
        whole: int = len(self._given)  # type: ignore[arg-type]
        if not self._turns.is_evaluating:
            return whole // self._dealer.num_workers
        return whole if self._turns.share is None else self._turns.share.num_of(whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_given"], name)


def dealt(given: Any, dealer: Dealer, turns: Turns) -> Any:
    """Give a loader of one worker's part; says what is done with it, where that is not plain."""
    if not isinstance(given, DataLoader):
        if dealer.num_workers > 1:
            turns.say("a loader that is no DataLoader is dealt out batch by batch")
        return Passed(given, dealer, turns)
    sampling = _sampling(given, dealer, turns)
    made = Loader(given, sampling, turns=turns, dealer=dealer)
    _check_length(made, given, dealer)
    return made


def _sampling(given: DataLoader[Any], dealer: Dealer, turns: Turns) -> dict[str, Any]:
    if isinstance(given.dataset, IterableDataset):
        return _of_iterable(given, dealer, turns)
    if _is_sharded(given):
        turns.say("the script's own sharding of its data is left as it is")
        return _as_it_is(given)
    if given.batch_sampler is None:  # one by one, without batches
        return {"batch_size": None, "sampler": DealtSampler(given.sampler, 1, dealer)}
    if type(given.batch_sampler) is not BatchSampler:
        return {"batch_sampler": DealtBatches(given.batch_sampler, dealer)}
    batch = given.batch_sampler.batch_size
    own = given.batch_sampler.sampler
    part = own if dealer.num_workers == 1 else DealtSampler(own, batch, dealer)
    return {"batch_size": batch, "sampler": part, "drop_last": True}


def _as_it_is(given: DataLoader[Any]) -> dict[str, Any]:
    if given.batch_size is None:
        return {"batch_sampler": given.batch_sampler}
    return {
        "batch_size": given.batch_size,
        "sampler": given.sampler,
        "drop_last": given.drop_last,
    }


def _of_iterable(given: DataLoader[Any], dealer: Dealer, turns: Turns) -> dict[str, Any]:
    if dealer.num_workers > 1:
        turns.say(
            "each worker reads all of an iterable dataset and keeps its part; a dataset that "
            "reads only a part can tell which by paceline.rank() and paceline.num_workers()"
        )
    if _is_sharded(given):
        return {"batch_size": given.batch_size, "drop_last": given.drop_last}
    items: Any = given.dataset
    dataset = DealtItems(items, given.batch_size or 1, dealer)
    return {"dataset": dataset, "batch_size": given.batch_size}


def _is_sharded(given: DataLoader[Any]) -> bool:
    """Whether the script deals its data out itself: it knows ranks and how many there are."""
    parts = (given.sampler, given.batch_sampler, given.dataset)
    return any(
        isinstance(each, DistributedSampler)
        or (
            hasattr(each, "rank") and (hasattr(each, "num_replicas") or hasattr(each, "world_size"))
        )
        for each in parts
    )


def _dropped(given: DataLoader[Any], dealer: Dealer) -> str | None:
    """Say which rows nobody trains on: those of a last batch that is not whole for all."""
    batches = given.batch_sampler
    if _is_left_alone(given) or type(batches) is not BatchSampler:
        return None
    try:
        rest = len(batches.sampler) % (batches.batch_size * dealer.num_workers)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not rest or (given.drop_last and dealer.num_workers == 1):
        return None
    return f"the last {rest} rows of an epoch, fewer than a batch of all, are left out"


def _check_length(made: DataLoader[Any], given: DataLoader[Any], dealer: Dealer) -> None:
    try:
        num_batches = len(made)
    except TypeError:
        return
    if num_batches:
        return
    rows: Sequence[Any] = given.dataset  # type: ignore[assignment]
    raise LoopError(
        f"paceline.wrap: a loader has no batch for each of {dealer.num_workers} workers "
        f"({len(rows)} rows, batches of {given.batch_size})"
    )


def rows_in(batch: object) -> int:
    """Count the rows of a batch: the length of the first tensor in it."""
    if isinstance(batch, Tensor):
        return len(batch) if batch.dim() else 1
    if isinstance(batch, dict):
        batch = [*batch.values()]
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return rows_in(batch[0])
    return 1
