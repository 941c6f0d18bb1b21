"""Why a side is slower than the fastest, in one clause taken from its verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paceline.outcome.results import Result, Verdict
from paceline.reporting.ranking import rows_per_s, ties
from paceline.reporting.sides import Side
from paceline.seats import role_of


def cause(side: Side, best: Side) -> str | None:
    """Say why a side is behind, as the rest of `ps-sync is slower because …`; None: not known.

    Whoever moves as many rows per second as the best loses time by what it learns from them.
    """
    ours, theirs = rows_per_s(side), rows_per_s(best)
    if ours and theirs and (ours.median >= theirs.median or ties(ours, theirs)):
        return _learning(side.shown.result, best.shown.result)
    result = side.shown.result
    return None if result.verdict is None else _CLAUSES[result.verdict.kind](result, result.verdict)


def _learning(result: Result, best: Result) -> str:
    ours, theirs = result.global_steps, best.global_steps
    if ours and theirs and ours < theirs:
        return "it makes fewer updates from the same rows"
    return "it needs more rows to get there"


def _link(result: Result, verdict: Verdict) -> str:
    node = next((each for each in result.nodes if each.name == verdict.where), None)
    servers = [seat for seat in (node.seats if node else ()) if role_of(seat) == "server"]
    owner = servers[0] if servers else verdict.where
    return f"workers wait for {owner}'s link ({_percent(verdict, 'link_full')} full)"


def _server(_: Result, verdict: Verdict) -> str:
    share = _percent(verdict, "server_busy")
    return f"workers wait for {verdict.where}, which is busy for {share} of each exchange"


def _straggler(_: Result, verdict: Verdict) -> str:
    if verdict.evidence.get("others_wait", 0.0) > 0:
        return f"workers wait for {verdict.where} ({_percent(verdict, 'others_wait')} of each step)"
    return f"{verdict.where} is slower than the others"


def _input(_: Result, verdict: Verdict) -> str:
    if "load" not in verdict.evidence:
        return f"workers wait for {verdict.where} to load data"
    return f"{verdict.where} loads data for {_percent(verdict, 'load')} of each step"


def _compute(result: Result, verdict: Verdict) -> str:
    """One worker lacks the others' help; several are slower by the part that is no computing."""
    if result.num_workers == 1:
        return f"one worker computes alone ({_percent(verdict, 'compute')} of each step)"
    rest = 1 - verdict.evidence.get("compute", 0.0)
    return f"workers do not compute for {100 * rest:.0f} % of each step"


def _exchange(_: Result, verdict: Verdict) -> str:
    return f"workers exchange for {_percent(verdict, 'exchange')} of each step"


def _balanced(result: Result, verdict: Verdict) -> str | None:
    """Many small messages; or nothing that takes most of a step, which is a cause only in sum."""
    shares = verdict.evidence
    if "wait" not in shares:
        return _exchange(result, verdict)
    apart = shares.get("exchange", 0.0) + shares["wait"]
    if apart < max(shares.get("load", 0.0), shares.get("compute", 0.0)):
        return None
    return f"workers exchange or wait for {100 * apart:.0f} % of each step"


def _host(_: Result, verdict: Verdict) -> str:
    return f"this machine was fully loaded ({_percent(verdict, 'host')} busy)"


_CLAUSES: Final[dict[str, Callable[[Result, Verdict], str | None]]] = {
    "link": _link,
    "server": _server,
    "straggler": _straggler,
    "input": _input,
    "compute": _compute,
    "exchange": _exchange,
    "balanced": _balanced,
    "host-limited": _host,
}


def _percent(verdict: Verdict, name: str) -> str:
    return f"{100 * verdict.evidence.get(name, 0.0):.0f} %"
