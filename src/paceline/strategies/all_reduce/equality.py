"""Workers that must stay equal are compared."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

from paceline.comm.allreduce.base import AllReduce
from paceline.errors import Diverged

if TYPE_CHECKING:
    from torch import Tensor


def check_equal(all_reduce: AllReduce, parameters: Tensor, num_steps: int) -> None:
    """Compare the parameters of all ranks by a hash. Raises `Diverged`, which names who differs."""
    import torch

    own = zlib.crc32(parameters.view(torch.uint8).numpy().data)
    hashes = all_reduce.gather(own)
    usual, count = Counter(hashes).most_common(1)[0]
    if count == len(hashes):
        return
    odd = [f"worker{rank}" for rank, each in enumerate(hashes) if each != usual]
    rest = [f"worker{rank}" for rank, each in enumerate(hashes) if each == usual]
    raise Diverged(
        f"after step {num_steps} the parameters of {', '.join(odd)} differ from those of "
        f"{', '.join(rest)}; something changes them besides the optimizer"
    )
