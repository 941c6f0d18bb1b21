"""Peers of the claims S6 and S7, as `benchmarks/study_peers.py` has measured them.

`peers.json` has for each peer `peer_s`, `ours_s`, `ratio` (with `ratio_low`, `ratio_high` and `n`),
`log_loss` and `setting`; or `reason`, where it did not run at all. `missed` says that one of both,
`peer` or `ours`, did not come to the log loss: its seconds are then those after which it was given
up, and the ratio is a bound. That is a result, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from paceline.studies.evidence import Evidence, Untestable

_HOW: Final = "python benchmarks/study_peers.py --peers PYTHON --out FOLDER measures it"
Missed = Literal["peer", "ours"]


@final
@dataclass(frozen=True, kw_only=True)
class Against:
    """How a peer did to the same log loss, in words and in times our time."""

    text: str
    low: float
    """The least of the repetitions; of a peer that was given up, what it took at least."""
    high: float
    missed: Missed | None = None

    @property
    def is_peer_slower(self) -> bool:
        return self.low > 1 and self.missed != "ours"

    @property
    def is_peer_faster(self) -> bool:
        return self.high < 1 and self.missed != "peer"

    @property
    def reason(self) -> str:
        """Say why neither is the faster one, where that is so."""
        is_told = self.is_peer_slower or self.is_peer_faster
        return "" if is_told else "a tie: the ranges of repetitions overlap"


def against(evidence: Evidence, name: str, called: str) -> Against:
    """Read what was measured of a peer; raises `Untestable` where nothing was."""
    if name not in evidence.peers:
        raise Untestable(f"{name} was not measured into this folder: {_HOW}")
    peer: Mapping[str, Any] = evidence.peers[name]
    if "reason" in peer:
        raise Untestable(f"{name} did not run: {peer['reason']}")
    missed: Missed | None = peer.get("missed")
    found = Against(
        text=_text(peer, called, missed),
        low=float(peer["ratio_low"]),
        high=float(peer["ratio_high"]),
        missed=missed,
    )
    if missed and found.reason:
        raise Untestable(f"stopped before it was clear which is faster: {found.text}")
    return found


def _text(peer: Mapping[str, Any], called: str, missed: Missed | None) -> str:
    times = f"{peer['ratio']:.2f} times"
    spread = f"{peer['ratio_low']:.2f} to {peer['ratio_high']:.2f}, n={peer['n']}"
    setting = f"({spread}; {peer['setting']})"
    theirs, ours = f"{peer['peer_s']:.2f} s", f"{peer['ours_s']:.2f} s"
    loss = f"log loss {peer['log_loss']:.4f}"
    if missed == "peer":
        return (
            f"{called} has not reached {loss} within {theirs}, `single` has in {ours}: slower than "
            f"{times} as long {setting}"
        )
    if missed == "ours":
        return (
            f"{called} reaches {loss} in {theirs}, `single` has not within {ours}: faster than "
            f"{times} as long {setting}"
        )
    return f"{called} reaches {loss} in {theirs}, `single` in {ours}: {times} {setting}"
