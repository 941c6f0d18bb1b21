"""A script's loaders, dealt out: N workers at batch B see what one worker sees at N times B."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final

from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset

from paceline.engine.scripted.dealing import (
    Dealer,
    DealtBatches,
    DealtItems,
    DealtSampler,
    Turns,
)
from paceline.engine.scripted.drawing import OwnDraws
from paceline.engine.scripted.sharing import EvaluatedPart
from paceline.errors import LoopError
from paceline.scripting.current import ScriptOver

_THEIR_SHARDING: Final = "the script's own sharding of its data is left as it is"
# A loop that asks for so many epochs without getting a batch will never end by itself.
_MOST_EMPTY: Final = 10_000


@final
class _Epochs:
    """What a loader gives to train on, epoch after epoch, until the run is over."""

    def __init__(self, given: Any, turns: Turns, num_workers: int) -> None:
        self._given = given
        self._turns = turns
        self._num_workers = num_workers
        self._has_given = False
        self._num_in_vain = 0

    def begun(self, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Begin one; ends the script where it asks again and again when there is none."""
        if not self._turns.is_over:
            return self._counted(begin())
        self._turns.cut_short()
        self._num_in_vain += 1
        if self._num_in_vain > _MOST_EMPTY:
            raise ScriptOver
        return iter(())

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        while not self._turns.is_over:
            try:
                batch = self._turns.load(batches)
            except StopIteration:
                if not self._has_given:
                    raise _no_batch(self._given, self._num_workers) from None
                self._turns.pause()
                return
            self._has_given = True
            yield batch
        self._turns.cut_short()
        self._turns.pause()


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
        self.__dict__.update(_given=given, _turns=turns, _dealer=dealer, _reads=True)
        self.__dict__["_dropped"] = _dropped(given, dealer)
        self.__dict__["_epochs"] = _Epochs(given, turns, dealer.num_workers)
        super().__init__(**{**_options(given), **_apart(given, dealer), **sampling})
        self.__dict__["_reads"] = False

    def __iter__(self) -> Any:
        turns = self.__dict__["_turns"]
        if turns.is_evaluating:
            return _evaluated(self.__dict__["_given"], turns.share)
        return self.__dict__["_epochs"].begun(self._begun)

    def _begun(self) -> Iterator[Any]:
        if self.__dict__["_dropped"] is not None:  # what only evaluates has all its rows
            self.__dict__["_turns"].say(self.__dict__["_dropped"])
        stream = self.__dict__["_dealer"].stream
        self.__dict__["_reads"] = True
        try:
            with contextlib.nullcontext() if stream is None else stream:  # it draws a seed
                return super().__iter__()
        finally:
            self.__dict__["_reads"] = False

    def __len__(self) -> int:
        given, turns = self.__dict__["_given"], self.__dict__["_turns"]
        if turns.is_evaluating:
            return _num_evaluated(given, turns.share)
        if isinstance(given.dataset, IterableDataset) and not _is_sharded(given):
            at_a_time: int = (given.batch_size or 1) * self.__dict__["_dealer"].num_workers
            num_rows: int = len(given.dataset)  # type: ignore[arg-type]
            return num_rows // at_a_time
        return super().__len__()

    @property
    def dataset(self) -> Any:
        """The script's own; of a worker's share while it evaluates one, since sums are divided
        by its length.
        """
        given, share = self.__dict__["_given"], self.__dict__["_turns"].share
        if self.__dict__["_reads"]:  # what is read from, as DataLoader asks for it
            return self.__dict__["_dataset"]
        if share is None or _is_sharded(given):
            return given.dataset
        if isinstance(given.dataset, IterableDataset):
            raise LoopError(
                "paceline.evaluating(shared=True): a share of an iterable dataset has no length "
                "before it is read: divide by the number of rows that were read"
            )
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


def _apart(given: DataLoader[Any], dealer: Dealer) -> dict[str, Any]:
    """Have processes of a loader draw numbers of their own in each worker.

    Not where they read an iterable dataset: its order must be the same for all.
    """
    if not (dealer.rank and given.num_workers) or isinstance(given.dataset, IterableDataset):
        return {}
    return {"worker_init_fn": OwnDraws(dealer.rank, given.worker_init_fn)}


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

    def __init__(
        self, given: Iterable[Any], dealer: Dealer, turns: Turns, *, is_dealt: bool = False
    ) -> None:
        """`is_dealt`: by the script itself, so that it is left as it is."""
        self._given = given
        self._is_dealt = is_dealt
        self._dealer = Dealer(0, 1) if is_dealt else dealer
        self._turns = turns
        self._epochs = _Epochs(given, turns, dealer.num_workers)

    def __iter__(self) -> Iterator[Any]:
        if not self._turns.is_evaluating:
            return self._epochs.begun(lambda: self._dealer.every(self._given))
        share = self._turns.share
        if share is None:
            return iter(self._given)
        batches = self._given if self._is_dealt else share.every(self._given)
        return share.counted(batches, rows_in)

    def __len__(self) -> int:
        whole: int = len(self._given)  # type: ignore[arg-type]
        if not self._turns.is_evaluating:
            return whole // self._dealer.num_workers
        share = self._turns.share
        return whole if share is None or self._is_dealt else share.num_of(whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_given"], name)


def dealt(given: Any, dealer: Dealer, turns: Turns) -> Any:
    """Give a loader of one worker's part; says what is done with it, where that is not plain."""
    made = _made(given, dealer, turns)
    if _length(made) == 0:
        few = f"no batch for each of {dealer.num_workers} workers{_contents(given)}"
        turns.say(f"a loader has {few}: it can be evaluated, but not be trained on")
    return made


def _made(given: Any, dealer: Dealer, turns: Turns) -> Loader | Passed:
    if not isinstance(given, DataLoader):
        if dealer.num_workers > 1:
            turns.say("a loader that is no DataLoader is dealt out batch by batch")
        return Passed(given, dealer, turns)
    if _reads_itself(type(given)):
        return _passed(given, dealer, turns)
    return Loader(given, _sampling(given, dealer, turns), turns=turns, dealer=dealer)


def _reads_itself(cls: type[DataLoader[Any]]) -> bool:
    """Whether a class of DataLoaders has a way of its own to give batches."""
    return any(
        getattr(cls, name) is not getattr(DataLoader, name)
        for name in ("__iter__", "_get_iterator")
    )


def _passed(given: DataLoader[Any], dealer: Dealer, turns: Turns) -> Passed:
    if _is_sharded(given):
        turns.say(_THEIR_SHARDING)
        return Passed(given, dealer, turns, is_dealt=True)
    if dealer.num_workers > 1:
        turns.say(
            f"{type(given).__name__} gives batches in a way of its own, so they are dealt out "
            "batch by batch"
        )
    return Passed(given, dealer, turns)


def _sampling(given: DataLoader[Any], dealer: Dealer, turns: Turns) -> dict[str, Any]:
    if isinstance(given.dataset, IterableDataset):
        return _of_iterable(given, dealer, turns)
    if _is_sharded(given):
        turns.say(_THEIR_SHARDING)
        return _as_it_is(given)
    if given.batch_sampler is None:  # one by one, without batches
        return {"batch_size": None, "sampler": DealtSampler(given.sampler, 1, dealer, turns)}
    if type(given.batch_sampler) is not BatchSampler:
        return {"batch_sampler": DealtBatches(given.batch_sampler, dealer, turns)}
    batch = given.batch_sampler.batch_size
    own = given.batch_sampler.sampler
    part = own if dealer.num_workers == 1 else DealtSampler(own, batch, dealer, turns)
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


def _no_batch(given: Any, num_workers: int) -> LoopError:
    """Say that an epoch had no batch, and what there is."""
    return LoopError(
        f"a loader has no batch for each of {num_workers} workers{_contents(given)}: a step takes "
        "one of each worker's, all of one size. Rows that are only evaluated are read inside of "
        "paceline.evaluating()"
    )


def _contents(given: Any) -> str:
    """Say how much a loader has, as far as it is known."""
    rows = _length(getattr(given, "dataset", None))
    parts = [] if rows is None else [f"{rows} rows"]
    batch = getattr(given, "batch_size", None)
    if isinstance(batch, int):
        parts.append(f"batches of {batch}")
    elif (num_batches := _length(given)) is not None:
        parts.append(f"{num_batches} batches")
    return f" ({', '.join(parts)})" if parts else ""


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def rows_in(batch: object) -> int:
    """Count the rows of a batch: the length of the first tensor in it."""
    if isinstance(batch, Tensor):
        return len(batch) if batch.dim() else 1
    if isinstance(batch, Mapping):
        batch = [*batch.values()]
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return rows_in(batch[0])
    return 1
