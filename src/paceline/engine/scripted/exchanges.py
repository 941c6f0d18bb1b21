"""What becomes of the gradients of a script's own loop: three kinds, as the strategy says."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from paceline.compute.stand_in import StandIn
from paceline.engine.scripted.lost_changes import LostChanges
from paceline.errors import LoopError
from paceline.seats import seat_name
from paceline.strategies.base import Member, Place
from paceline.training.carried import (
    CarriedPiece,
    Carrier,
    ScriptParameters,
    Stretch,
    as_laid,
    lay_out,
)
from paceline.training.finite import OF_ANOTHER
from paceline.training.replica import Replica
from paceline.training.sliced import Numbers, OwnOptimizer, Slices

Backward = Callable[[Tensor], None]


class Exchange(ABC):
    """Moves a script's gradients and parameters to and from the vector that a strategy moves."""

    replica: Replica
    optimizer: OwnOptimizer
    member: Member

    def join(self, place: Place, join: Callable[[Place], Member]) -> None:
        """Take part; the member may move the replica."""
        self.member = join(place)

    def after_backward(self, *, last: bool) -> bool:
        """Gradients of a backward pass are there; returns whether the step must be the last."""
        del last
        return False

    def before_step(self, number: int, *, last: bool) -> bool:
        """An optimizer is about to step; returns whether the step must be the last."""
        del number, last
        return False

    def after_step(self, *, last: bool) -> bool:
        """The first optimizer has stepped; returns whether that was the last step."""
        del last
        return False

    def close(self) -> None:
        """Say to the others that this worker makes no more steps."""

    @property
    def is_deserted(self) -> bool:
        """Whether another worker's script has ended, so that this one cannot go on."""
        return False

    @property
    def deserted_by(self) -> str:
        """Name whoever that was."""
        return "another worker"

    def settle(self) -> None:
        """Bring the script's parameters to what is looked at, with all other workers."""
        self.member.settle()


@final
class Alone(Exchange):
    """Nothing is exchanged, and nothing is copied: the script trains by itself."""

    def __init__(self) -> None:
        self.replica = Replica(Carrier([], torch.float32))
        self.optimizer = OwnOptimizer()

    def after_step(self, *, last: bool) -> bool:
        return self.member.exchange(last=last)


# What a worker says in front of the flags: that its script has ended, as a bit of its own. A float
# holds this many.
_ENDED: Final = 0
_MOST_NAMED: Final = 20


@final
class Averaged(Exchange):
    """Gradients are averaged when `backward` returns; each worker's own optimizer then steps."""

    def __init__(
        self, trained: ScriptParameters, *, through_autograd: bool, backward: Backward
    ) -> None:
        """`backward` back-propagates without any exchange."""
        sizes = [each.numel() for each in trained.parameters]
        self.replica = Replica(Carrier([1 + len(sizes), *sizes], trained.dtype), trained.dtype)
        self.optimizer = OwnOptimizer()
        self._parameters = trained.parameters
        self._through: nn.Module | None = None
        self._needs_autograd = through_autograd
        self._backward = backward
        self._is_deserted = False
        self._who_ended = 0

    def join(self, place: Place, join: Callable[[Place], Member]) -> None:
        super().join(place, join)
        self._ranks, self._rank = place.roster.worker_numbers, place.rank
        header, *places = self.replica.places.values()
        vector = self.replica.gradients
        self._header = vector[header].numpy()
        self._views = [
            _seen_in(vector, place, each)
            for place, each in zip(places, self._parameters, strict=True)
        ]
        if self._needs_autograd:
            carried = [*self.replica.places]
            self._through = self.member.wrap(StandIn(carried, [(_at_once, carried)]))

    @property
    def is_deserted(self) -> bool:
        return self._is_deserted

    def after_backward(self, *, last: bool) -> bool:
        if self._is_deserted:
            return True
        self._header[_ENDED] = 0.0
        self._lay_in()
        must_stop = self._average(last=last)
        if self._header[_ENDED] > 0:
            self._is_deserted = True
            self._who_ended = round(float(self._header[_ENDED]) * len(self._ranks))
            return True
        self._take_out()
        return must_stop

    def close(self) -> None:
        if self._is_deserted:
            return
        self.replica.gradients.zero_()
        self._header[_ENDED] = 2.0 ** min(self._rank, _MOST_NAMED)
        self._average(last=True)

    @property
    def deserted_by(self) -> str:
        ended = [
            seat_name("worker", rank)
            for rank in self._ranks
            if rank < _MOST_NAMED and self._who_ended >> rank & 1
        ]
        return " and ".join(ended) or "another worker"

    def _average(self, *, last: bool) -> bool:
        self.member.begin(last=last)
        if self._through is not None:
            self._backward(self._through(torch.zeros(1, requires_grad=True)))
        must_stop = self.member.exchange(last=last)
        self.member.take_waited_ns()  # all of it is exchange already
        return must_stop

    def _lay_in(self) -> None:
        """Put gradients into the vector, and say which there are; a missing one counts as zero."""
        sources, targets, flags = [], [], []
        for each, view in zip(self._parameters, self._views, strict=True):
            gradient = each.grad
            flags.append(gradient is not None)
            if gradient is None:
                view.zero_()
            elif gradient is not view:
                sources.append(gradient)
                targets.append(view)
        self._header[1:] = flags
        if targets:
            try:
                torch._foreach_copy_(targets, sources)
            except RuntimeError:
                _refuse_sparse(sources)
                raise

    def _take_out(self) -> None:
        """Give the script the averages; what no worker has a gradient for stays without."""
        used = (self._header[1:] > 0).tolist()
        for each, view, is_used in zip(self._parameters, self._views, used, strict=True):
            if not is_used:
                continue
            if each.dtype == view.dtype:
                each.grad = view
            elif each.grad is None:
                each.grad = view.to(each.dtype)
            else:
                each.grad.copy_(view)


def _refuse_sparse(gradients: Sequence[Tensor]) -> None:
    """Raises `LoopError` where one is sparse, as of an embedding that was asked for it."""
    for each in gradients:
        if each.layout != torch.strided:
            raise LoopError(
                f"the gradient of a parameter of shape {tuple(each.shape)} is sparse, and dense "
                "ones are exchanged: leave out sparse=True where its layer is made, or use single "
                "or solo"
            )


def _at_once() -> None:
    """Wait for nothing: the gradients are there."""


def _seen_in(vector: Tensor, place: slice, like: Tensor) -> Tensor:
    piece = CarriedPiece(0, 0, place.stop - place.start, place.start, 0)
    return as_laid(vector, piece, like.detach())


@final
class ThroughServers(Exchange):
    """`optimizer.step()` pushes gradients, and brings back what the servers made of them."""

    def __init__(
        self,
        trained: ScriptParameters,
        cut: Callable[[int], Sequence[tuple[int, int]]],
        names: Mapping[nn.Parameter, str],
    ) -> None:
        """`names`: those of parameters that a model has."""
        self._trained = trained
        self._names = names
        self._numbers = Numbers(trained.optimizers)
        self._blocks: list[Stretch] = lay_out(trained, cut, self._numbers.count)
        self.replica = Replica(Carrier([self._blocks[-1].stop], trained.dtype), trained.dtype)
        self.optimizer = OwnOptimizer(held=Slices(trained, self._blocks, self._numbers))
        self._pieces = [piece for block in self._blocks for piece in block.pieces]
        self.copy_in(self.replica.parameters)

    def copy_in(self, vector: Tensor) -> None:
        """Lay the script's parameters, as they are, into a vector."""
        with torch.no_grad():
            for piece in self._pieces:
                vector[piece.place].copy_(_flat(self._parameter(piece))[piece.start : piece.stop])

    def join(self, place: Place, join: Callable[[Place], Member]) -> None:
        super().join(place, join)
        self.member.overlaps = False  # gradients are laid into the vector when all are there
        self._refusals = place.refusals
        self._is_deserted = False
        self._is_over = False
        self._version = self._num_pushes = self._num_steps = 0
        self._header = self.replica.gradients.numpy()
        self._split = [each for each in self._pieces if not self._lies_whole(each)]
        self.replica.gradients.zero_()
        self._changes = LostChanges(
            [
                (self._names.get(each, f"{number} of the optimizers"), _flat(each))
                for number, each in enumerate(self._trained.parameters)
            ]
        )
        self._changes.note()

    def _lies_whole(self, piece: CarriedPiece) -> bool:
        """Have a parameter lie in the vector, where it is not split and of the same dtype."""
        own = self._parameter(piece)
        if piece.stop - piece.start != own.numel() or own.dtype != self.replica.parameters.dtype:
            return False
        laid = as_laid(self.replica.parameters, piece, own.detach())
        laid.copy_(own.detach())
        own.data = laid
        return True

    def _parameter(self, piece: CarriedPiece) -> nn.Parameter:
        return self._trained.parameters[piece.parameter]

    @property
    def is_deserted(self) -> bool:
        return self._is_deserted

    def before_step(self, number: int, *, last: bool) -> bool:
        if self._is_over:
            return True
        self._changes.check()
        for block in self._blocks:
            for group, at in block.groups.items():
                self._numbers.write(group, self._header, at)
        self._lay_in(number)
        self.member.begin(last=last)
        refused = self._refusals.flaws[OF_ANOTHER]
        self._is_over = self.member.exchange(last=last)
        self._num_pushes += 1
        self._num_steps += not number
        self._count_steps()
        self._take_out()
        if self.member.is_held:
            self._changes.forget()
        else:
            self._changes.note()
        ended = self._is_over and not last and self._refusals.flaws[OF_ANOTHER] > refused
        self._is_deserted = self._is_deserted or ended
        return self._is_over

    def _count_steps(self) -> None:
        """Have the member count steps of the first optimizer; servers count pushes of each."""
        self._version = version = self.member.global_steps or 0
        if self._num_pushes:
            self.member.global_steps = round(version * self._num_steps / self._num_pushes)

    def _lay_in(self, number: int) -> None:
        """Put the gradients that one optimizer steps with into the vector."""
        vector, groups = self.replica.gradients, self._trained.groups
        for piece in self._pieces:
            group = groups[piece.parameter]
            gradient = self._parameter(piece).grad
            is_stepped = group is not None and group[0] == number and gradient is not None
            self._header[piece.flag] = is_stepped
            if is_stepped and gradient is not None:
                vector[piece.place].copy_(self._stretch(gradient, piece))
            else:
                vector[piece.place].zero_()

    def _stretch(self, values: Tensor, piece: CarriedPiece) -> Tensor:
        """See a stretch of a gradient in the order in which its parameter lies in the vector."""
        own = self._parameter(piece)
        _refuse_sparse([values])
        if values.stride() != own.stride():
            values = torch.empty_like(own.detach(), dtype=values.dtype).copy_(values)
        return _flat(values)[piece.start : piece.stop]

    def _take_out(self) -> None:
        with torch.no_grad():
            for piece in self._split:
                target = _flat(self._parameter(piece).detach())[piece.start : piece.stop]
                target.copy_(self.replica.parameters[piece.place])

    def close(self) -> None:
        """Push what is no gradient, which is refused, as the last."""
        if self._is_over:
            return
        flaws = self._refusals.flaws.copy()
        self.replica.gradients.fill_(torch.nan)
        self.member.begin(last=True)
        self.member.exchange(last=True)
        self._count_steps()
        self._refusals.flaws = flaws

    def settle(self) -> None:
        self.member.global_steps = self._version  # as servers count: it may ask them
        super().settle()
        self._count_steps()
        self._take_out()
        self._changes.forget()


def _flat(values: Tensor) -> Tensor:
    """See a tensor without gaps as a vector, in the order in which it lies in memory."""
    values = values.detach()
    count: Any = (values.numel(),)
    return values.as_strided(count, (1,))
