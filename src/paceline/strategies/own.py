"""What a script does by itself: it makes its own process group, and Paceline only watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, final

from paceline.strategies.all_reduce.describe import around
from paceline.strategies.base import Flow, Member, Place, Strategy


@final
class Own(Strategy):
    """A script's own exchange, such as its DDP or FSDP: it finds torchrun's environment."""

    @property
    def name(self) -> str:
        return "own"

    @property
    def in_step(self) -> bool:
        return True

    @property
    def needs_processes(self) -> bool:
        return True

    @property
    def connects_itself(self) -> bool:
        return True

    @property
    def scripts(self) -> Literal["own"]:
        return "own"

    @property
    def imports(self) -> tuple[str, ...]:
        return ("paceline.strategies.own_member", "torch.nn.parallel.distributed")

    def meaning(self, num_workers: int) -> str:
        workers = "1 worker" if num_workers == 1 else f"{num_workers} workers"
        return f"the script's own exchange, {workers}"

    def flows(self, nodes: Mapping[str, str]) -> Sequence[Flow]:
        """As torch's DDP on Gloo; a script that exchanges otherwise says no `parameter_bytes`."""
        return around([*nodes])

    def join(self, place: Place) -> Member:
        from paceline.strategies.own_member import OwnMember

        return OwnMember(place)
