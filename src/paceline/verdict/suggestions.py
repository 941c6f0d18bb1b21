"""What to try next, each with the gain that the measured parts promise.

A step is taken apart, the part that would change is put back as it would be, and the two are
compared. How bytes spread over links, and what a ring would take, is `paceline.arithmetic`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final, final

from paceline.arithmetic.costs import NO_COSTS
from paceline.arithmetic.exchange import (
    CHUNK_BYTES,
    AllReducePattern,
    ExchangePattern,
    Servers,
    chunk_bytes_of,
)
from paceline.arithmetic.forecast import Situation, forecast
from paceline.arithmetic.network import LinkRate, Network
from paceline.arithmetic.step import even_step
from paceline.verdict.handling import costs_of, latency_of
from paceline.verdict.traffic import Layout, ps_load, ring_load

if TYPE_CHECKING:
    from paceline.outcome.results import Result, Verdict
    from paceline.verdict.measured import Measured

# Less than this is not worth anybody's time.
_LEAST_GAIN: Final = 1.1
# Another strategy is suggested where it brings this much more than servers that are spread.
_REALLY_BETTER: Final = 1.03
# A row is named twice, to be fetched and to be changed, and its values go both ways.
_ROW_NAMES_BYTES: Final = 16


@final
@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Something to change, and what it would bring."""

    name: str
    """For programs: servers, sparse, batch, link, ring, straggler, input or workers."""
    advice: str
    """What to do."""
    promise: str
    """What would come of it, as the end of a sentence."""
    gain: float
    """Samples per second with it, over those without."""


def suggestions(view: Measured, verdict: Verdict) -> list[Suggestion]:
    """Give what the measured parts support, what brings most first."""
    found = [each for make in _BY_KIND.get(verdict.kind, ()) for each in make(view, verdict)]
    worthwhile = [each for each in found if each.gain >= _LEAST_GAIN]
    return sorted(worthwhile, key=lambda each: each.gain, reverse=True)


def _step_s(view: Measured) -> float:
    return view.critical.total_s / view.steps[view.slowest]


def _gain(view: Measured, saved_s: float) -> float:
    """What it brings to save so much of the slowest worker's step."""
    step_s = _step_s(view)
    return step_s / max(step_s - saved_s, 0.01 * step_s)


def _per_step(view: Measured, part: str) -> float:
    return view.step_s(view.slowest, part)


def _on_the_wire_s(view: Measured) -> float:
    """What a step waits for bytes on a link: a faster one shortens only that."""
    return view.wire_share * _per_step(view, "transfer_s")


def _more_servers(view: Measured, verdict: Verdict) -> Iterator[Suggestion]:
    layout = Layout.of(view.result)
    if verdict.kind == "link" and (spread := _spread_gain(view, layout)) is not None:
        yield Suggestion(
            name="servers",
            advice="put a server beside every worker: --set strategy.servers=auto",
            promise=f"{layout.num_workers} servers would make a step {_shorter(spread)}",
            gain=spread,
        )
        return
    wanted = min(2 * layout.num_servers, layout.num_nodes)
    if not layout.num_servers or wanted <= layout.num_servers:
        return
    if verdict.kind == "server":
        less = 1 - layout.num_servers / wanted
        saved_s = less * _per_step(view, "served_s")
    else:
        # Several servers are not ready at the same time: answers of one meet gradients for another.
        now = ps_load(layout, layout.num_servers, in_turn=view.takes_turns)
        less = 1 - ps_load(layout, wanted) / now
        saved_s = less * _on_the_wire_s(view)
    gain = _gain(view, saved_s)
    yield Suggestion(
        name="servers",
        advice=f"use {wanted} servers: --set strategy.servers={wanted}",
        promise=f"{wanted} servers would make a step {_shorter(gain)}",
        gain=gain,
    )


def _spread_gain(view: Measured, layout: Layout) -> float | None:
    """What a server beside every worker brings; None where that is not known, or not possible.

    Only of updates that average, of a model of several chunks: it is then exchanged as the closed
    form says, behind back-propagation if that of this run was.
    """
    result = view.result
    is_fewer = layout.beside and 0 < layout.num_servers < layout.num_workers == layout.num_nodes
    if not is_fewer or not _in_step(result) or not view.links or result.touched_rows is not None:
        return None
    chunk_bytes, model_bytes = result.chunk_bytes or CHUNK_BYTES, result.model_bytes or 0
    if model_bytes <= chunk_bytes_of(model_bytes, layout.num_workers, chunk_bytes):
        return None
    spread = Servers(
        num_servers=layout.num_workers, chunk_bytes=chunk_bytes, overlap=view.is_overlapped
    )
    return _gain_with(spread, view)


def _gain_with(exchange: ExchangePattern, view: Measured) -> float:
    """What another exchange between the same workers brings, by the arithmetic of plans.

    Over the run's slowest link and its latency, and at what its servers took for each byte. What
    messages cost is in neither: a run does not say it.
    """
    result, compute_s = view.result, _per_step(view, "compute_s")
    costs = costs_of(result) or NO_COSTS
    model_bytes = result.model_bytes or 0
    step = even_step(compute_s, model_bytes)
    if isinstance(exchange, AllReducePattern):  # each worker applies what a server did
        step = replace(step, update_s=model_bytes * costs.apply_s_per_byte)
    slowest = LinkRate(bits_per_s=min(link.bits_per_s for link in view.links))
    made = forecast(
        exchange,
        Situation(
            step=step,
            network=Network(link=slowest, latency_s=latency_of(result)),
            num_workers=result.num_workers,
            num_nodes=result.num_workers,
            costs=costs,
        ),
        simulate=False,
    )
    now_s = _per_step(view, "transfer_s") + _per_step(view, "apply_s")
    return _gain(view, now_s - (made.step_s - compute_s))


def _ring(view: Measured, _: Verdict) -> Iterator[Suggestion]:
    """Only in the place of a server that averages: the result is the same."""
    layout, result = Layout.of(view.result), view.result
    if not layout.num_servers or not _in_step(result) or not result.model_bytes or not view.links:
        return
    if result.touched_rows is not None and not _moves_whole_table(view):
        return
    gain = _gain_with(AllReducePattern(), view)
    if gain < _REALLY_BETTER * (_spread_gain(view, layout) or 0.0):
        return
    yield Suggestion(
        name="ring",
        advice="use all-reduce, which gives the same result: --strategy ring",
        promise=f"ring would make a step {_shorter(gain)}",
        gain=gain,
    )


def _in_step(result: Result) -> bool:
    """Whether each update averaged the gradients of all workers; older results do not say it."""
    if result.in_step is not None:
        return result.in_step
    return all(worker.times_last is not None for worker in result.workers)


def _sparse(view: Measured, _: Verdict) -> Iterator[Suggestion]:
    result = view.result
    if not result.servers or not _moves_whole_table(view):
        return
    assert result.touched_rows is not None
    assert result.model_bytes is not None
    moved = result.touched_rows * (_ROW_NAMES_BYTES + 2 * (result.row_bytes or 0))
    less = 1 - min(1.0, moved / (2 * result.model_bytes))
    gain = _gain(view, less * _per_step(view, "served_s"))
    yield Suggestion(
        name="sparse",
        advice="move only the rows that a batch touches: --set strategy.sparse=true",
        promise=f"moving only touched rows would make a step {_shorter(gain)}",
        gain=gain,
    )


def _moves_whole_table(view: Measured) -> bool:
    result = view.result
    sent = view.slowest_worker.sent_bytes
    if result.touched_rows is None or not result.model_bytes or sent is None:
        return False
    return sent >= 0.5 * result.model_bytes * view.steps[view.slowest]


def _larger_batch(view: Measured, _: Verdict) -> Iterator[Suggestion]:
    """An exchange costs the same however many rows were computed before it."""
    busy_s, step_s = _per_step(view, "busy_s"), _step_s(view)
    batch = 2 * view.result.batch_size
    gain = 2 * step_s / (step_s + busy_s)
    yield Suggestion(
        name="batch",
        advice=f"use more rows per step: --batch {batch} (the learning rate may have to follow)",
        promise=f"batch {batch} would bring {gain:.2g} times the samples per second",
        gain=gain,
    )


def _faster_link(view: Measured, verdict: Verdict) -> Iterator[Suggestion]:
    """Twice the rate for the link that is fullest, or what the next one allows."""
    if verdict.where is None or not view.links:
        return
    now = max(link.in_use for link in view.links)
    then = max(
        link.in_use / 2 if link.node == verdict.where else link.in_use for link in view.links
    )
    alike = [link for link in view.links if link.in_use > 0.8 * now]
    if len(alike) > 1:  # nobody would make only one of them faster
        then = now / 2
    gain = _gain(view, (1 - then / now) * _on_the_wire_s(view))
    whose = "links" if len(alike) > 1 else f"a link of {verdict.where}"
    yield Suggestion(
        name="link",
        advice=f"{whose} of twice the rate",
        promise=f"{whose} of twice the rate would make a step {_shorter(gain)}",
        gain=gain,
    )


def _mend_straggler(view: Measured, verdict: Verdict) -> Iterator[Suggestion]:
    excess_s = view.excess_s("busy_s")
    if view.others_wait > 0.05:
        gain = _gain(view, excess_s)
    else:
        rates = [view.steps[name] / view.parts[name].total_s for name in view.parts]
        others = median(view.steps[name] / view.parts[name].total_s for name in view.others)
        gain = len(rates) * others / sum(rates)
    yield Suggestion(
        name="straggler",
        advice=f"repair {verdict.where}, or remove it",
        promise=f"with {verdict.where} as quick as the others: {_times(gain)}",
        gain=gain,
    )


def _read_ahead(view: Measured, _: Verdict) -> Iterator[Suggestion]:
    """Loading that goes on while a worker does everything else costs only what is longer."""
    load_s = _per_step(view, "load_s")
    gain = _gain(view, min(load_s, _step_s(view) - load_s))
    yield Suggestion(
        name="input",
        advice="read the next batch while this one computes (paceline.workloads.data.stream)",
        promise=f"reading ahead would make a step {_shorter(gain)}",
        gain=gain,
    )


def _more_workers(view: Measured, _: Verdict) -> Iterator[Suggestion]:
    """Only where workers have nodes of their own."""
    layout = Layout.of(view.result)
    if not view.links or layout.num_workers < 2:
        return
    twice = layout.with_workers(2 * layout.num_workers)
    load = ps_load if layout.num_servers else _ring_load_of
    grows = load(twice, layout.num_servers) / load(layout, layout.num_servers) - 1
    gain = 2 * _gain(view, -max(0.0, grows) * _per_step(view, "transfer_s"))
    yield Suggestion(
        name="workers",
        advice=f"use more workers: --workers {twice.num_workers}",
        promise=f"{twice.num_workers} workers would bring {gain:.2g} times the samples per second",
        gain=gain,
    )


def _ring_load_of(layout: Layout, _: int) -> float:
    return ring_load(layout)


_BY_KIND: Final = {
    "link": (_sparse, _more_servers, _ring, _larger_batch, _faster_link),
    "server": (_sparse, _more_servers, _larger_batch),
    "straggler": (_mend_straggler,),
    "input": (_read_ahead,),
    "compute": (_more_workers,),
}


def _shorter(gain: float) -> str:
    if 1.9 <= gain <= 2.1:
        return "about half as long"
    return f"{100 * (1 - 1 / gain):.0f} % shorter"


def _times(gain: float) -> str:
    return f"{gain:.2g} times the samples per second"
