"""What all workloads on pictures have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from annotated_types import Ge

from paceline.training.metrics import Better
from paceline.workloads.base import ALL_CORES, Batch, Workload

if TYPE_CHECKING:
    from torch import Tensor, nn

# Test pictures of 32 pixels that go through a network at a time; fewer where they are larger.
_TEST_PIXELS: Final = 500 * 32 * 32


class ImageWorkload(Workload, ABC):
    """Pictures in classes: a network, accuracy, and whether the class is among the first five."""

    most_threads: ClassVar[int | None] = ALL_CORES
    better: ClassVar[Mapping[str, Better]] = {"top5": "higher"}

    image_size: Annotated[int, Ge(32)] = 32
    """Pixels on a side, as the network sees them; pictures of another size are resized."""
    augment: bool = True
    """Whether training pictures are cut and mirrored at random."""
    channels_last: bool = False
    """Whether the channels of a pixel lie side by side in memory: faster where pictures are large,
    or a network was made for small ones."""

    @property
    def test_batch(self) -> int:
        return max(1, _TEST_PIXELS // self.image_size**2)

    @abstractmethod
    def network(self) -> nn.Module:
        """Make the network, as torch lays it out."""

    def model(self) -> nn.Module:
        import torch

        network = self.network()
        if self.channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return network

    def example(self) -> Batch:
        import torch

        size = self.image_size
        return torch.zeros(1, 3, size, size), torch.zeros(1, dtype=torch.int64)

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        from torch.nn import functional

        inputs, classes = batch
        outputs = model(inputs)
        first = outputs.topk(min(5, outputs.shape[1])).indices == classes.unsqueeze(1)
        return {
            "accuracy": first[:, 0].double().mean(),
            "top5": first.any(1).double().mean(),
            "loss": functional.cross_entropy(outputs, classes),
        }
