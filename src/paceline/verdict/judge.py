"""From what was measured to the one thing that held a run up.

The worker whose own step takes longest sets the pace; in a synchronous run all others wait for it.
What takes most of *its* step is the bottleneck: the others' waiting is only its echo.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paceline.outcome.results import Verdict
from paceline.verdict.measured import Measured
from paceline.verdict.suggestions import Suggestion, suggestions
from paceline.verdict.thresholds import THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from paceline.outcome.results import Result, VerdictKind


def judge(result: Result, thresholds: Thresholds = THRESHOLDS) -> Verdict | None:
    """Name what held a run up, and what to try; None if it did not finish or says too little."""
    view = Measured.of(result, thresholds.least_steps)
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
    view = Measured.of(result, thresholds.least_steps)
    return [] if view is None else suggestions(view, _found(view, thresholds))


def _found(view: Measured, thresholds: Thresholds) -> Verdict:
    return next(found for rule in _RULES if (found := rule(view, thresholds)) is not None)


def _host_limited(sentence: str, evidence: dict[str, float], advice: str) -> Verdict:
    """What it would bring to follow the advice, nothing measured tells."""
    return Verdict(
        kind="host-limited",
        where="host",
        sentence=sentence,
        evidence=evidence,
        suggestion=advice,
    )


def _by_device(view: Measured, _: Thresholds) -> Verdict | None:
    """A replayed device that could not keep its own pace says so itself."""
    if view.result.compute != "replayed" or not view.result.host_limited:
        return None
    sentence = "host-limited: this machine could not keep up with the replayed times"
    evidence = {"host": view.host, "starved": view.starved}
    advice = f"slow time down (--dilation {2 * view.result.dilation:g}), or use fewer workers"
    return _host_limited(sentence, evidence, advice)


def _others_fill_it(view: Measured, limits: Thresholds) -> Verdict | None:
    """Other programs fill the machine: which worker is late, and why, is their doing."""
    others = view.other_programs
    if others is None or view.host < limits.host_full or others < limits.other_programs:
        return None
    sentence = (
        f"host-limited: all cores of this machine are {_percent(view.host)} busy, and other "
        f"programs use {_percent(others)} of them"
    )
    evidence = {"host": view.host, "other_programs": others, "starved": view.starved}
    advice = "end the other programs, or use a quieter machine"
    return _host_limited(sentence, evidence, advice)


def _one_is_late(view: Measured, limits: Thresholds) -> Verdict | None:
    """One worker takes longer by itself, and the others wait or run ahead."""
    if not view.others:
        return None
    own_s, excess_s = view.step_s(view.slowest, "busy_s"), view.excess_s("busy_s")
    others_s = max(own_s - excess_s, 1e-9)
    others_wait = view.others_wait >= limits.late
    if others_wait and excess_s >= limits.excess * -view.excess_s("wait_s"):
        consequence = f"the others wait {_percent(view.others_wait)} of each step for it"
    elif not others_wait and own_s >= limits.slower * others_s and _is_busy(view, limits):
        consequence = "no worker waits, but it makes fewer and staler updates"
    else:
        return None
    evidence = {"others_wait": view.others_wait, "slower": own_s / others_s}
    loads = view.excess_s("load_s") > 0.5 * excess_s
    kind: VerdictKind = "input" if loads else "straggler"
    title, doing = ("input-bound", "load a batch") if loads else (kind, "compute a step")
    sentence = (
        f"{title}: {view.slowest} takes {_ms(excess_s)} longer than the others to {doing}; "
        f"{consequence}"
    )
    return Verdict(kind=kind, where=view.slowest, sentence=sentence, evidence=evidence)


def _is_busy(view: Measured, limits: Thresholds) -> bool:
    return view.critical.share(view.critical.busy_s) >= limits.dominant


def _host_is_full(view: Measured, limits: Thresholds) -> Verdict | None:
    if view.host < limits.host_full or view.starved < limits.starved:
        return None
    sentence = (
        f"host-limited: all cores of this machine are {_percent(view.host)} busy, and "
        f"{view.slowest} waits {_percent(view.starved)} of its time for one"
    )
    evidence = {"host": view.host, "starved": view.starved}
    advice = "use fewer workers or fewer threads, or a machine with more cores"
    return _host_limited(sentence, evidence, advice)


def _loads(view: Measured, limits: Thresholds) -> Verdict | None:
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


def _computes(view: Measured, limits: Thresholds) -> Verdict | None:
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


def _exchanges(view: Measured, limits: Thresholds) -> Verdict | None:
    """Neither loading nor computing: is it a server, a link, or this machine's own memory?"""
    share = view.critical.share(_exchange_s(view))
    if share < limits.dominant:
        return None
    in_use, busy = _link_in_use(view), _server_busy(view, share)
    evidence = {"exchange": share, "link_in_use": in_use, "server_busy": busy}
    if busy >= limits.server_busy and busy >= in_use:
        return _server(view, share, evidence)
    if in_use >= limits.link_full:
        return _link(view, share, evidence)
    return _neither(view, share, evidence)


def _link_in_use(view: Measured) -> float:
    """The part of an exchange that the fullest link is in use; both ways may be at once."""
    link = view.fullest_link
    return 0.0 if link is None else min(1.0, link.in_use / view.travelling)


def _server_busy(view: Measured, share: float) -> float:
    """The part of an exchange that the busiest server is; it may be while others compute, too.

    Under dilation links are slowed and servers are not: one only seems to be quick enough.
    """
    server = view.busiest_server
    if server is None or view.result.dilation != 1.0:
        return 0.0
    return min(1.0, view.server_share(server) / share)


def _server(view: Measured, share: float, evidence: dict[str, float]) -> Verdict:
    server = view.busiest_server
    assert server is not None
    sentence = (
        f"server-bound: {server.name} is busy {_percent(view.server_share(server))} of "
        f"the time; {_workers(view)} {_percent(share)} of each step for it"
    )
    return Verdict(kind="server", where=server.name, sentence=sentence, evidence=evidence)


def _link(view: Measured, share: float, evidence: dict[str, float]) -> Verdict:
    link = view.fullest_link
    assert link is not None
    turns = " each way, in turn" if view.takes_turns else ""
    sentence = (
        f"network-bound: {link.node}'s link is {_percent(link.full)} full{turns}; "
        f"{_workers(view)} {_percent(share)} of each step for it"
    )
    evidence = {**evidence, "link_full": link.full}
    return Verdict(kind="link", where=link.node, sentence=sentence, evidence=evidence)


def _neither(view: Measured, share: float, evidence: dict[str, float]) -> Verdict:
    if view.fullest_link is None:
        apart = len(view.result.nodes) > 1
        how = "between nodes" if apart else "through this machine's memory"
        links = " (how full their links were is not known)" if apart else ""
        sentence = (
            f"exchange-bound: workers exchange for {_percent(share)} of each step {how}, and no "
            f"server is full{links}"
        )
        return Verdict(kind="exchange", where=None, sentence=sentence, evidence=evidence)
    sentence = (
        f"balanced: workers exchange for {_percent(share)} of each step, but no link and no server "
        "is full: the number of messages limits, not their size"
    )
    return Verdict(kind="balanced", where=None, sentence=sentence, evidence=evidence)


def _nothing_stands_out(view: Measured, _: Thresholds) -> Verdict:
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
    _others_fill_it,
    _one_is_late,
    _host_is_full,
    _loads,
    _computes,
    _exchanges,
    _nothing_stands_out,
)


def _exchange_s(view: Measured) -> float:
    """What the slowest worker's exchange takes; what it applies itself is computing."""
    critical = view.critical
    return critical.served_s if view.result.servers else critical.transfer_s


def _workers(view: Measured) -> str:
    count = len(view.parts)
    return "1 worker waits" if count == 1 else f"{count} workers wait"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.0095 else f"{1e3 * seconds:.2g} ms"
