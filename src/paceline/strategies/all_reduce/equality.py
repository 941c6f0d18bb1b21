"""Workers that must stay equal are compared."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.comm.allreduce.base import AllReduce
from paceline.errors import Diverged

if TYPE_CHECKING:
    from torch import Tensor


def check_equal(
    all_reduce: AllReduce, parameters: Tensor, num_steps: int, workers: Sequence[str]
) -> None:
    """Compare the parameters of all workers by a hash. Raises `Diverged`, naming who differs."""
    import torch

    own = zlib.crc32(parameters.view(torch.uint8).numpy().data)
    hashes = all_reduce.gather(own)
    usual, count = Counter(hashes).most_common(1)[0]
    if count == len(hashes):
        return
    odd = [name for name, each in zip(workers, hashes, strict=True) if each != usual]
    rest = [name for name, each in zip(workers, hashes, strict=True) if each == usual]
    raise Diverged(
        f"after step {num_steps} the parameters of {', '.join(odd)} differ from those of "
        f"{', '.join(rest)}; something changes them besides the optimizer"
    )
