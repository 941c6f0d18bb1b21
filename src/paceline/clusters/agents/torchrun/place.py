"""Where torchrun has put a process: its rank, how many there are, and the store of all of them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final, final

from paceline.errors import Problem, SpecError

_NEEDED: Final = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_OTHERS: Final = ("LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE")
COMMAND: Final = (
    "torchrun --nnodes N --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:PORT "
    "-m paceline run ..."
)
"""What to type on each machine."""


@final
@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """What torchrun says in the environment of a process that it starts."""

    rank: int
    num_nodes: int
    store_host: str
    store_port: int
    run_id: str
    hosts_store: bool = False
    """Whether this process keeps the store itself: torchrun does, unless it is asked not to."""

    @property
    def node(self) -> str:
        return node_of(self.rank)

    def announce(self, text: str) -> None:
        """Say something to whoever reads torchrun's output on this machine."""
        head = f"{self.node} of {self.num_nodes} ({socket.gethostname()})"
        print(f"{head}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - as said


def node_of(rank: int) -> str:
    """Name the node of the process that has a rank."""
    return f"node{rank}"


def num_nodes(environ: Mapping[str, str]) -> int:
    """Give how many machines torchrun has brought together; one where there is no torchrun."""
    told = environ.get("WORLD_SIZE", "")
    return int(told) if told.isdecimal() and int(told) > 0 else 1


def place_of(environ: Mapping[str, str]) -> RankPlace:
    """Read the environment; raises `SpecError` that says how torchrun is to be started."""
    missing = [each for each in _NEEDED if not environ.get(each)]
    if missing:
        reason = f"not started by torchrun (no {missing[0]}); type on each machine: {COMMAND}"
        raise SpecError([Problem("cluster", "torchrun", reason)])
    problems = list(_problems(environ))
    if problems:
        raise SpecError(problems)
    rank = int(environ["RANK"])
    return RankPlace(
        rank=rank,
        num_nodes=int(environ["WORLD_SIZE"]),
        store_host=environ["MASTER_ADDR"],
        store_port=int(environ["MASTER_PORT"]),
        run_id=environ.get("TORCHELASTIC_RUN_ID", ""),
        hosts_store=rank == 0 and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def _problems(environ: Mapping[str, str]) -> Iterator[Problem]:
    for each in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if not environ[each].isdecimal():
            yield Problem(each, environ[each], "not a number, as torchrun sets it")
    if environ["LOCAL_WORLD_SIZE"] != "1":
        reason = "one process per machine, which forks its workers: --nproc-per-node 1"
        yield Problem("--nproc-per-node", environ["LOCAL_WORLD_SIZE"], reason)
    if environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        reason = "a run that failed would start again from the beginning: --max-restarts 0"
        yield Problem("--max-restarts", environ["TORCHELASTIC_MAX_RESTARTS"], reason)


def forget_place(environ: MutableMapping[str, str]) -> None:
    """Remove what torchrun says of this process: it is not so for the workers it will fork."""
    for name in (*_NEEDED, *_OTHERS, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"):
        environ.pop(name, None)
