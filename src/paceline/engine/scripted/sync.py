"""All seats of a run continue with worker 0's values: parameters, buffers, random numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.comm.base import Channel, Message
from paceline.comm.roster import Roster
from paceline.engine.scripted.objects import Objects
from paceline.errors import LoopError


def values_of(objects: Objects, extra: Sequence[Tensor]) -> list[Tensor]:
    """List what a script's models and optimizers consist of, each once, and what else is alike."""
    found = {id(each): each.detach() for each in objects.parameters}
    for module in objects.modules:
        for buffer in module.buffers():
            found.setdefault(id(buffer), buffer.detach())
    return [*found.values(), *(each.detach() for each in extra)]


def take_first(channel: Channel, roster: Roster, name: str, values: Sequence[Tensor]) -> None:
    """Replace values by worker 0's; that one sends them to all others."""
    first, *others = (*roster.workers, *roster.servers)
    if name != first:
        _unpack(_from(channel, first), values)
        return
    packed = _packed(values)
    for each in others:
        channel.send(each, packed)


def _packed(values: Sequence[Tensor]) -> Tensor:
    parts = [each.contiguous().reshape(-1).view(torch.uint8) for each in values]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)


def _unpack(packed: Tensor, values: Sequence[Tensor]) -> None:
    expected = sum(each.nbytes for each in values)
    if packed.numel() != expected:
        raise LoopError(
            f"paceline.wrap: this copy of the script has {expected:,} bytes of parameters and "
            f"buffers, worker 0's has {packed.numel():,}: all must make the same model"
        )
    start = 0
    with torch.no_grad():
        for each in values:
            part = packed[start : start + each.nbytes].clone().view(each.dtype)
            each.copy_(part.view(each.shape))
            start += each.nbytes


def _from(channel: Channel, sender: str) -> Tensor:
    """Wait for one seat's message; what others say before is kept for whoever asks next."""
    early: deque[Message] = deque()
    receive = channel.receive
    while (message := receive()).sender != sender:
        early.append(message)
    if early:

        def replay() -> Message:
            if len(early) == 1:
                del channel.receive
            return early.popleft()

        channel.receive = replay  # type: ignore[method-assign]
    return message.values
