"""The rows of a batch in ascending order, where a link needs them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from torch import Tensor


@final
class Ascending:
    """Rows of a table, each named once, and the same rows in ascending order.

    Several servers each have a stretch of the table, and one that gets rows in a message sees at
    a glance that each is named once. A batch names its rows in no particular order.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.order = rows.argsort()
        self.ascending = rows[self.order]

    def of_ascending(self, values: Tensor) -> Tensor:
        """Bring values of the ascending rows into the order of the batch."""
        ordered = values.new_empty(values.shape)
        return ordered.index_copy_(0, self.order, values)
