"""What handling gradients costs a processor, apart from computing them."""

from __future__ import annotations

from typing import Final, final

from paceline.description import Description, NotNegative


@final
class Costs(Description):
    """Seconds of one thread; zero where nothing was measured."""

    message_s: NotNegative = 0.0
    """To send a message, and as much to receive it, however small."""
    copy_s_per_byte: NotNegative = 0.0
    """To send or receive each byte of a large one."""
    add_s_per_byte: NotNegative = 0.0
    """To add one gradient to another."""
    apply_s_per_byte: NotNegative = 0.0
    """To apply an update."""

    @property
    def name(self) -> str:
        return "costs"

    def scaled(self, factor: float) -> Costs:
        """Give the same on a processor that takes `factor` times as long."""
        return Costs(**{key: factor * value for key, value in self.values().items()})

    def message(self, num_bytes: float) -> float:
        """Send or receive a message of so many bytes."""
        return self.message_s + num_bytes * self.copy_s_per_byte


NO_COSTS: Final = Costs()
