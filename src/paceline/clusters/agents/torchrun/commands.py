"""The commands that start a run on each machine, for whoever types or submits them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from paceline.clusters.agents.secret import FILE_VARIABLE, MAKE

_PORT: Final = 29500


def commands_for(num_nodes: int, arguments: Sequence[str]) -> str:
    """Write the command of each machine, in both ways of torchrun to bring them together."""
    own = f"-m paceline {shlex.join(arguments)}"
    head = f"{FILE_VARIABLE}=paceline.secret torchrun --nnodes {num_nodes} --nproc-per-node 1"
    lines = [
        "# Once: make the run's secret. Copy the file to every machine.",
        MAKE,
        "",
        "# On each machine; HOST is one of them. The one whose name sorts first drives the run.",
        f"{head} --rdzv-backend c10d --rdzv-endpoint HOST:{_PORT} {own}",
        "",
        "# Or choose which one drives: HOST, with --node-rank 0.",
    ]
    at = f"--master-addr HOST --master-port {_PORT}"
    lines += [f"{head} --node-rank {rank} {at} {own}" for rank in range(num_nodes)]
    return "\n".join(lines)
