"""Where gradients, parameters and rows lie in the memory that a worker and its servers share.

A worker's arena: a page of 64-bit words, marks, the gradients, the parameters, and, for a model
with a table, the numbers of the rows that the batch touched and their gradients. The first words
are the push's number, its flags and when it was sent; then for each server the number of the push
it has decided, the version of the parameters, the reply's flags, and which of the rows are its.
Marks are two words for each chunk of all servers: the number of the push that it was sent for
early, negative where it is refused, and that of the push for which it was answered.

A server's arena: a word for the version of the parameters, one for each chunk that is odd while
the chunk changes, its part of the parameters, and its part of the table.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

import torch

from paceline.comm.host_memory import tensor_in
from paceline.strategies.base import Place
from paceline.strategies.parameter_server.cuts import Chunk, server_part
from paceline.system import huge_pages
from paceline.training.replica import Replica
from paceline.training.row_update import values_per_row

if TYPE_CHECKING:
    from torch import Tensor

HEADER_BYTES: Final = 4096
PUSH, FLAGS, SENT, FIRST_SERVER = 0, 1, 2, 8
ANSWERED, VERSION, REPLY_FLAGS, ROWS_START, ROWS_STOP, WORDS = 0, 1, 2, 3, 4, 8
_WORD_BYTES: Final = 8
# Most rows that a batch may touch. Memory that is never touched costs nothing.
_MOST_ROWS: Final = 1 << 22
MOST_SERVERS: Final = (HEADER_BYTES // 8 - FIRST_SERVER) // WORDS


@final
class WorkerLayout:
    """Where things lie in a worker's arena."""

    def __init__(self, replica: Replica, num_chunks: int) -> None:
        values = replica.parameters
        self.num_chunks = num_chunks
        self.marks = HEADER_BYTES
        self.gradients = self.marks + _rounded(2 * num_chunks * _WORD_BYTES, HEADER_BYTES)
        self.parameters = self.gradients + values.nbytes
        # rows' numbers are 64-bit words and begin at one
        self.rows = _rounded(self.parameters + values.nbytes, _WORD_BYTES)
        table = replica.table
        self.num_rows = 0 if table is None else min(table.num_rows, _MOST_ROWS)
        self.width = 0 if table is None else table.width
        self.row_gradients = self.rows + self.num_rows * _WORD_BYTES
        self.num_bytes = self.row_gradients + self.num_rows * self.width * values.element_size()

    def marks_in(self, memory: mmap.mmap) -> tuple[memoryview, memoryview]:
        """The marks of what was sent early, and of what was answered."""
        middle = self.marks + self.num_chunks * _WORD_BYTES
        stop = middle + self.num_chunks * _WORD_BYTES
        view = memoryview(memory)
        return view[self.marks : middle].cast("q"), view[middle:stop].cast("q")


@final
class ServerLayout:
    """Where things lie in a server's arena."""

    def __init__(self, place: Place, chunks: list[Chunk], server: int) -> None:
        replica, num_servers = place.replica, place.num_servers
        self.dtype = replica.parameters.dtype
        self.num_words = 1 + len(chunks)
        self.parameters = _rounded(8 * self.num_words, HEADER_BYTES)
        self.num_values = sum(chunk.num_values for chunk in chunks)
        self.table = _rounded(self.parameters + self.num_values * self.dtype.itemsize, HEADER_BYTES)
        self.rows = slice(0, 0)
        self.width = self.row_values = 0
        if replica.table is not None:
            self.rows = server_part(replica.table.num_rows, num_servers, server)
            self.width = replica.table.width
            self.row_values = values_per_row(place.optimizer, self.width)
        self.num_row_values = (self.rows.stop - self.rows.start) * self.row_values
        self.num_bytes = self.table + self.num_row_values * self.dtype.itemsize

    def version_in(self, memory: mmap.mmap) -> memoryview:
        return memoryview(memory)[:8].cast("q")

    def changes_in(self, memory: mmap.mmap) -> memoryview:
        return memoryview(memory)[8 : 8 * self.num_words].cast("q")

    def parameters_in(self, memory: mmap.mmap) -> Tensor:
        return tensor_in(memory, self.dtype, self.num_values, self.parameters)

    def table_in(self, memory: mmap.mmap) -> Tensor:
        """The table, each row with its optimizer's states beside it."""
        huge_pages.ask_for(memory)
        values = tensor_in(memory, self.dtype, self.num_row_values, self.table)
        return values.view(-1, self.row_values)


def firsts_of(chunks: Sequence[Sequence[Chunk]]) -> list[int]:
    """Say where the marks of each server's chunks begin."""
    return [sum(map(len, chunks[:server])) for server in range(len(chunks))]


def _rounded(num_bytes: int, unit: int) -> int:
    return -(-num_bytes // unit) * unit


def words_in(memory: mmap.mmap) -> memoryview:
    return memoryview(memory)[:HEADER_BYTES].cast("q")


def row_area(memory: mmap.mmap, layout: WorkerLayout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The numbers of the touched rows, and their gradients."""
    count, width = layout.num_rows, layout.width
    rows = tensor_in(memory, torch.int64, count, layout.rows)
    gradients = tensor_in(memory, dtype, count * width, layout.row_gradients)
    return rows, gradients.view(count, width)
