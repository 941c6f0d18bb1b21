"""A workload whose parameters and gradients are a pattern that can be looked for on a link."""

import torch
from torch import Tensor, nn

from paceline import Tensors, Workload

PATTERN = 0x3C5A3C5A  # as a number, about 0.0133


def marked_value() -> float:
    return torch.tensor([PATTERN], dtype=torch.int32).view(torch.float32).item()


class Marked(Workload):
    """Every parameter is the same number, and so is every gradient."""

    default_batch = 8

    def model(self) -> nn.Module:
        made = nn.Linear(64, 64, bias=False)
        nn.init.constant_(made.weight, marked_value())
        return made

    def data(self, split, dtype) -> Tensors:
        del split
        return Tensors(torch.ones(256, 64, dtype=dtype), origin="ones")

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        return marked_value() * model(batch[0]).sum(1).mean()

    def metrics(self, model: nn.Module, batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return {"loss": self.loss(model, batch)}
