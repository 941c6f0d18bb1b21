"""RawRows as they stand in a file, many in one stretch of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final, overload

import numpy as np

from paceline.workloads.data.sparse.examples import Array


@final
@dataclass(frozen=True, eq=False)
class RawRows(Sequence[bytes]):
    """RawRows of one stretch of memory; between them may be what belongs to none."""

    content: bytes
    begins: Array  # of each row in it, int64
    stops: Array

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> RawRows:
        """The same rows in one stretch; nothing is copied where they are."""
        if isinstance(rows, RawRows):
            return rows
        ends = np.fromiter(accumulate(map(len, rows), initial=0), np.int64, len(rows) + 1)
        return cls(b"".join(rows), ends[:-1], ends[1:])

    def __len__(self) -> int:
        return len(self.begins)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> RawRows: ...
    def __getitem__(self, index: int | slice) -> bytes | RawRows:
        if isinstance(index, slice):
            return RawRows(self.content, self.begins[index], self.stops[index])
        return self.content[self.begins[index] : self.stops[index]]

    def __iter__(self) -> Iterator[bytes]:
        content = self.content
        for begin, stop in zip(self.begins.tolist(), self.stops.tolist(), strict=True):
            yield content[begin:stop]
