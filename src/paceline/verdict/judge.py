"""From what was measured to the one thing that held a run up.

The worker whose own step takes longest sets the pace; in a synchronous run all others wait for it.
What takes most of *its* step is the bottleneck: the others' waiting is only its echo.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paceline.results import Verdict
from paceline.verdict.suggestions import Suggestion, suggestions
from paceline.verdict.thresholds import THRESHOLDS, Thresholds
from paceline.verdict.view import View

if TYPE_CHECKING:
    from paceline.results import Result
    from paceline.verdict.resources import Link


def judge(result: Result, thresholds: Thresholds = THRESHOLDS) -> Verdict | None:
    """Name what held a run up, and what to try; None of a run that says too little."""
    view = View.of(result, thresholds.least_steps)
    if view is None:
        return None
    verdict = _found(view, thresholds)
    tips = suggestions(view, verdict)
    if not tips:
        return verdict
    best = tips[0]
    return replace(
        verdict,
        sentence=f"{verdict.sentence}; {best.promise}",
        suggestion=best.advice,
        expected_gain=round(best.gain, 3),
    )


def suggestions_for(result: Result, thresholds: Thresholds = THRESHOLDS) -> list[Suggestion]:
    """Give everything worth trying, what brings most first."""
    view = View.of(result, thresholds.least_steps)
    return [] if view is None else suggestions(view, _found(view, thresholds))


def _found(view: View, thresholds: Thresholds) -> Verdict:
    return next(found for rule in _RULES if (found := rule(view, thresholds)) is not None)


def _by_device(view: View, _: Thresholds) -> Verdict | None:
    """A replayed device that could not keep its own pace says so itself."""
    if not view.result.host_limited:
        return None
    sentence = (
        "host-limited: this machine could not keep up with the times that were to be replayed"
    )
    evidence = {"host": view.host, "starved": view.starved}
    return Verdict(kind="host-limited", where="host", sentence=sentence, evidence=evidence)


def _one_is_late(view: View, limits: Thresholds) -> Verdict | None:
    """One worker takes longer by itself, and the others wait or run ahead."""
    if not view.others:
        return None
    slowest, excess_s = view.slowest, view.excess_s("busy_s")
    waits_s = max(0.0, -view.excess_s("wait_s"))
    holds_up = view.others_wait >= limits.late and excess_s >= limits.excess * waits_s
    others_s = view.step_s(slowest, "busy_s") - excess_s
    is_slower = (
        view.step_s(slowest, "busy_s") >= limits.slower * others_s
        and view.critical.share(view.critical.busy_s) >= limits.dominant
    )
    if not (holds_up or (is_slower and view.others_wait < limits.late)):
        return None
    loads = view.excess_s("load_s") > 0.5 * excess_s
    evidence = {
        "others_wait": view.others_wait,
        "slower": view.step_s(slowest, "busy_s") / max(others_s, 1e-9),
    }
    doing = "load a batch" if loads else "compute a step"
    consequence = (
        f"the others wait {_percent(view.others_wait)} of each step for it"
        if holds_up
        else "nobody waits, but it brings fewer updates, and older ones"
    )
    sentence = (
        f"{'input-bound' if loads else 'straggler'}: {slowest} takes {_ms(excess_s)} longer than "
        f"the others to {doing}; {consequence}"
    )
    kind: Final = "input" if loads else "straggler"
    return Verdict(kind=kind, where=slowest, sentence=sentence, evidence=evidence)


def _host_is_full(view: View, limits: Thresholds) -> Verdict | None:
    if view.host < limits.host_full or view.starved < limits.starved:
        return None
    sentence = (
        f"host-limited: all cores of this machine are {_percent(view.host)} busy, and "
        f"{view.slowest} waits {_percent(view.starved)} of its time for one"
    )
    evidence = {"host": view.host, "starved": view.starved}
    return Verdict(kind="host-limited", where="host", sentence=sentence, evidence=evidence)


def _loads(view: View, limits: Thresholds) -> Verdict | None:
    share = view.critical.share(view.critical.load_s)
    if share < limits.dominant:
        return None
    sentence = f"input-bound: {view.slowest} loads data for {_percent(share)} of each step"
    read = next(
        (each.disk_read_bytes for each in view.result.nodes if view.slowest in each.seats), None
    )
    if read and view.result.train_s:
        sentence += f"; its node's disk gave {read / view.result.train_s / 1e6:,.1f} MB/s"
    evidence = {"load": share, "disk": max(view.result.disk_busy_percent.values(), default=0) / 100}
    return Verdict(kind="input", where=view.slowest, sentence=sentence, evidence=evidence)


def _computes(view: View, limits: Thresholds) -> Verdict | None:
    applies_itself = not view.result.servers
    own_s = view.critical.compute_s + (view.critical.apply_s if applies_itself else 0.0)
    share = view.critical.share(own_s)
    if share < limits.dominant:
        return None
    who = "workers compute" if view.others else f"{view.slowest} computes"
    sentence = f"compute-bound: {who} for {_percent(share)} of each step"
    return Verdict(
        kind="compute", where=view.slowest, sentence=sentence, evidence={"compute": share}
    )


def _exchanges(view: View, limits: Thresholds) -> Verdict | None:
    """Neither loading nor computing: is it a link, a server, or this machine's own memory?"""
    share = view.critical.share(_exchange_s(view))
    if share < limits.dominant:
        return None
    link, server = view.fullest_link, view.busiest_server
    # Both ways of a link may be in use at once, and a server may be busy while others compute.
    in_use = min(1.0, link.in_use / _travelling(view)) if link is not None else 0.0
    busy = min(1.0, view.server_share(server) / share) if server is not None else 0.0
    if view.result.dilation != 1.0:
        busy = 0.0  # time is slowed for links, not for servers, which only seem quick enough
    evidence = {"exchange": share, "link_in_use": in_use, "server_busy": busy}
    if server is not None and busy >= limits.server_busy and busy >= in_use:
        used = min(1.0, view.server_share(server))
        sentence = (
            f"server-bound: {server.name} is busy {_percent(used)} of the time; workers wait "
            f"{_percent(share)} of each step for it"
        )
        return Verdict(kind="server", where=server.name, sentence=sentence, evidence=evidence)
    if link is not None and in_use >= limits.link_full:
        sentence = (
            f"network-bound: {link.node}'s link is {_percent(link.full)} full{_in_turn(link)}; "
            f"{_workers(view)} {_percent(share)} of each step for it"
        )
        return Verdict(
            kind="link",
            where=link.node,
            sentence=sentence,
            evidence={**evidence, "link_full": link.full},
        )
    if link is None:
        sentence = (
            f"host-limited: workers exchange for {_percent(share)} of each step through this "
            "machine's memory, and no server is full"
        )
        return Verdict(kind="host-limited", where="host", sentence=sentence, evidence=evidence)
    sentence = (
        f"balanced: workers exchange for {_percent(share)} of each step, but no link and no server "
        "is full: it is the number of messages, not their size"
    )
    return Verdict(kind="balanced", where=None, sentence=sentence, evidence=evidence)


def _nothing_stands_out(view: View, _: Thresholds) -> Verdict:
    critical = view.critical
    shares = {
        "load": critical.share(critical.load_s),
        "compute": critical.share(critical.compute_s),
        "exchange": critical.share(_exchange_s(view)),
        "wait": critical.share(critical.wait_s),
    }
    told = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
    return Verdict(
        kind="balanced",
        where=None,
        sentence=f"balanced: nothing takes most of a step ({told})",
        evidence=shares,
    )


_RULES: Final = (
    _by_device,
    _one_is_late,
    _host_is_full,
    _loads,
    _computes,
    _exchanges,
    _nothing_stands_out,
)


def _exchange_s(view: View) -> float:
    """What the slowest worker's exchange takes; what it applies itself is computing."""
    critical = view.critical
    return critical.served_s if view.result.servers else critical.transfer_s


def _travelling(view: View) -> float:
    """The part of the time that something of the slowest worker travels, hidden or not."""
    hidden_s = view.slowest_worker.hidden_s or 0.0
    return view.critical.share(view.critical.transfer_s + hidden_s) or 1.0


def _in_turn(link: Link) -> str:
    """A push that is answered as a whole uses one way after the other."""
    return " each way, in turn" if link.in_use > 1.5 * link.full and link.full < 0.7 else ""


def _workers(view: View) -> str:
    count = len(view.parts)
    return "1 worker waits" if count == 1 else f"{count} workers wait"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.0095 else f"{1e3 * seconds:.2g} ms"
