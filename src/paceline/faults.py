"""Faults as data: which seat or node is struck, how, and when; read, checked and written as text.

kill:worker1@step=200          killed when the run has made 200 updates
restart:worker1@step=200+3s    killed then, and started again 3 s later
kill:server0@20s               killed after 20 s of training
stop:worker2@10s+5s            suspended for 5 s (SIGSTOP, SIGCONT)
slow:worker2x4@10s+20s         4 times slower for 20 s
cut:node1@15s+5s               the node's link is down for 5 s
late:worker2@30s               joins 30 s after the others have started
random:mtbf=20s                workers are killed at random, one about every 20 s
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from paceline.errors import Problem
from paceline.seats import parsed

FaultKind = Literal["kill", "restart", "stop", "slow", "cut", "late", "random"]
Victims = Literal["workers", "servers", "all"]
OnFailure = Literal["abort", "go-on", "replace", "restart"]
"""What the loss of a seat means: the run ends, goes on without it, starts it again, or starts all
seats again from the newest checkpoint."""

KINDS: Final[tuple[FaultKind, ...]] = ("kill", "restart", "stop", "slow", "cut", "late", "random")
EXAMPLES: Final = (
    "kill:worker1@step=200",
    "restart:worker1@step=200+3s",
    "stop:worker2@10s+5s",
    "slow:worker2x4@10s+20s",
    "cut:node1@15s+5s",
    "late:worker2@30s",
    "random:mtbf=20s,restart=1s,seed=3",
)
_LASTING: Final = ("restart", "stop", "slow", "cut")
_STRUCK: Final = re.compile(
    r"(?P<who>[a-z]+\d+)(?:x(?P<factor>\d+(?:\.\d+)?))?"
    r"@(?:step=(?P<step>\d+)|(?P<at>\d+(?:\.\d+)?)s)(?:\+(?P<lasts>\d+(?:\.\d+)?)s)?"
)
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)s")


@final
@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault that strikes at a known moment, or random kills."""

    kind: FaultKind
    who: str = ""
    """A seat, or a node whose link is cut; empty for random kills."""
    step: int | None = None
    """Strikes when the run has made this number of updates."""
    at_s: float | None = None
    """Or after this number of seconds of training."""
    lasts_s: float | None = None
    """How long a seat is away, stopped or slow, or a link cut; None: it does not end."""
    factor: float | None = None
    """How many times slower."""
    mtbf_s: float | None = None
    """Mean time between random kills."""
    seed: int | None = None
    """Of the random kills; the run's own, unless given."""
    most: int | None = None
    """How many random kills at most."""
    victims: Victims = "workers"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read one fault; raises `ValueError` with what is wrong."""
        kind, colon, rest = text.strip().partition(":")
        if not colon or kind not in KINDS:
            raise ValueError(f"not KIND:WHO@WHEN, with KIND one of {', '.join(KINDS)}")
        return _random(rest) if kind == "random" else _struck(kind, rest)

    def __post_init__(self) -> None:
        """Raise `ValueError` where the parts of a fault do not go together."""
        if self.kind in _LASTING and self.lasts_s is None:
            raise ValueError(f"{self.kind} needs how long, such as {self}+5s")
        if self.kind in ("kill", "late") and self.lasts_s is not None:
            raise ValueError(f"{self.kind} takes no +TIME; restart:{self.who} comes back")
        if (self.kind == "slow") != (self.factor is not None):
            raise ValueError("slow, and only slow, takes a factor: slow:worker2x4@10s+20s")
        if self.factor is not None and self.factor <= 1:
            raise ValueError("the factor says how many times slower: it is above 1")
        if self.lasts_s == 0 and self.kind != "restart":
            raise ValueError(f"{self.kind} for 0 s is no fault")
        if self.kind == "random" and not self.mtbf_s:
            raise ValueError("random needs mtbf=SECONDSs, the mean time between two kills")

    def is_due(self, time_s: float, steps: int) -> bool:
        """Whether it strikes after these seconds of training, and these updates."""
        return steps >= self.step if self.step is not None else time_s >= (self.at_s or 0.0)

    @property
    def strikes_node(self) -> bool:
        return self.kind == "cut"

    @property
    def goes_on(self) -> bool:
        """Whether a run that is started again has to have it once more: who is late has to be
        started, and random kills never end.
        """
        return self.kind in ("late", "random")

    @property
    def brings_back(self) -> bool:
        """Whether a seat has to be started while the others train."""
        return self.kind in ("restart", "late") or (
            self.kind == "random" and self.lasts_s is not None
        )

    @property
    def brings_back_server(self) -> bool:
        """Whether a server may have to be started again."""
        strikes_server = self.victims != "workers" or self.who.startswith("server")
        return strikes_server and self.brings_back

    @property
    def may_bring_back(self) -> bool:
        """The same, or it may come to that: who is stopped or cut off for long is given up."""
        return self.brings_back or self.kind in ("stop", "cut")

    def __str__(self) -> str:
        if self.kind == "random":
            return _random_text(self)
        factor = "" if self.factor is None else f"x{self.factor:g}"
        when = f"{self.at_s:g}s" if self.step is None else f"step={self.step}"
        lasts = "" if self.lasts_s is None else f"+{self.lasts_s:g}s"
        return f"{self.kind}:{self.who}{factor}@{when}{lasts}"


def _struck(kind: FaultKind, rest: str) -> Fault:
    match = _STRUCK.fullmatch(rest)
    if match is None:
        raise ValueError(f"not of the form {kind}:WHO@step=N or {kind}:WHO@SECONDSs")
    return Fault(
        kind=kind,
        who=match["who"],
        step=None if match["step"] is None else int(match["step"]),
        at_s=_number(match["at"]),
        lasts_s=_number(match["lasts"]),
        factor=_number(match["factor"]),
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _random(rest: str) -> Fault:
    options: dict[str, Any] = {}
    for each in rest.split(","):
        key, _, value = each.partition("=")
        options |= _option(key.strip(), value.strip())
    return Fault(kind="random", **options)


def _option(key: str, value: str) -> dict[str, Any]:
    seconds, names = _SECONDS.fullmatch(value), {"mtbf": "mtbf_s", "restart": "lasts_s"}
    if key in names and seconds is not None:
        return {names[key]: float(seconds[1])}
    if key in ("seed", "most") and value.isdecimal():
        return {key: int(value)}
    if key == "who" and value in ("workers", "servers", "all"):
        return {"victims": value}
    raise ValueError(
        f"{key}={value} is none of mtbf=20s, restart=1s, seed=3, most=200, "
        "who=workers, who=servers, who=all"
    )


def _random_text(fault: Fault) -> str:
    parts = [f"mtbf={fault.mtbf_s:g}s"]
    parts += [] if fault.lasts_s is None else [f"restart={fault.lasts_s:g}s"]
    parts += [] if fault.seed is None else [f"seed={fault.seed}"]
    parts += [] if fault.most is None else [f"most={fault.most}"]
    parts += [] if fault.victims == "workers" else [f"who={fault.victims}"]
    return f"random:{','.join(parts)}"


def parse_faults(given: object) -> object:
    """Turn what a spec holds into faults: one text or several, or faults made in Python."""
    each = [given] if isinstance(given, str | Fault) else given
    if not isinstance(each, Sequence) or not all(isinstance(one, str | Fault) for one in each):
        raise ValueError(f"not faults, such as {EXAMPLES[0]}")
    return tuple(Fault.parse(one) if isinstance(one, str) else one for one in each)


def late_seats(faults: Iterable[Fault]) -> set[str]:
    """Name the seats that are not there when the others start."""
    return {each.who for each in faults if each.kind == "late"}


def failure_problems(spec: Any) -> Iterator[Problem]:
    """Say which faults, and answers to losses, are not possible with the parts of a `RunSpec`."""
    if spec.goes_on and not spec.survives_workers:
        who = "a script's " if spec.workload.is_script else ""
        reason = f"{who}{spec.strategy.name} cannot go on without a worker"
        yield Problem("on_failure", spec.on_failure, reason, ("abort", "restart"))
    yield from spec.cluster.loss_problems(spec.on_failure)
    if spec.min_workers > spec.num_workers:
        reason = f"more than the run's {spec.num_workers} workers"
        yield Problem("min_workers", spec.min_workers, reason)
    if spec.fault:
        yield from problems(spec.fault, {each.name: each.node for each in spec.seats()})
    for fault in spec.fault:
        refusal = spec.cluster.cannot_strike(fault.kind) or _cannot_return(fault, spec)
        if refusal is not None:
            yield Problem("fault", str(fault), refusal)


def _cannot_return(fault: Fault, spec: Any) -> str | None:
    """Say why a fault's victim cannot come back."""
    if spec.when_lost == "restart" and fault.brings_back:
        return "with on_failure=restart all seats are started again: kill does it"
    if spec.when_lost == "restart" or not fault.brings_back:
        return None
    if not spec.takes_workers_in:
        return "this strategy takes no worker in while others train"
    away: str | None = spec.strategy.keeps_servers_away
    return away if fault.brings_back_server else None


def problems(faults: Sequence[Fault], nodes: Mapping[str, str]) -> Iterator[Problem]:
    """Say which faults strike what this run does not have; `nodes` has the node of each seat."""
    nodes = {name: node for name, node in nodes.items() if parsed(name)[0] != "monitor"}
    seats = tuple(nodes)
    workers = [name for name in seats if parsed(name)[0] == "worker"]
    for fault in faults:
        choices = tuple(dict.fromkeys(nodes.values())) if fault.strikes_node else seats
        if fault.kind != "random" and fault.who not in choices:
            what = "node" if fault.strikes_node else "seat"
            yield Problem("fault", str(fault), f"this run has no {what} {fault.who}", choices)
        elif fault.kind == "late" and fault.who not in workers:
            yield Problem("fault", str(fault), "only a worker can join late", tuple(workers))
        elif fault.kind == "late" and fault.step is not None:
            yield Problem("fault", str(fault), "late takes seconds, such as late:worker2@30s")
    if workers and set(workers) <= late_seats(faults):
        yield Problem("fault", "late", "all workers would be late: none could begin")
