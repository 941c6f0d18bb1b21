"""What to try next, each with the gain that the measured parts promise.

A step is taken apart, the part that would change is put back as it would be, and the two are
compared. How bytes spread over links follows from who sits where (`traffic.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, final

from paceline.verdict.traffic import Layout, ps_load, ring_load

if TYPE_CHECKING:
    from paceline.results import Verdict
    from paceline.verdict.view import View

# Less than this is not worth anybody's time.
_LEAST_GAIN: Final = 1.1
# A row is named twice, to be fetched and to be changed, and its values go both ways.
_ROW_NAMES_BYTES: Final = 16
# Of computing, back-propagation: what an exchange can hide behind.
_BACKWARD: Final = 2 / 3
_BUCKET_BYTES: Final = 4 << 20


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


def suggestions(view: View, verdict: Verdict) -> list[Suggestion]:
    """Give what the measured parts support, what brings most first."""
    found = [each for make in _BY_KIND.get(verdict.kind, ()) for each in make(view, verdict)]
    worthwhile = [each for each in found if each.gain >= _LEAST_GAIN]
    return sorted(worthwhile, key=lambda each: each.gain, reverse=True)


def _step_s(view: View) -> float:
    return view.critical.total_s / view.steps[view.slowest]


def _gain(view: View, saved_s: float) -> float:
    """What it brings to save so much of the slowest worker's step."""
    step_s = _step_s(view)
    return step_s / max(step_s - saved_s, 0.01 * step_s)


def _per_step(view: View, part: str) -> float:
    return view.step_s(view.slowest, part)


def _on_the_wire_s(view: View) -> float:
    """What a step waits for bytes on a link: a faster one shortens only that."""
    return view.wire_share * _per_step(view, "transfer_s")


def _more_servers(view: View, verdict: Verdict) -> Iterator[Suggestion]:
    layout = Layout.of(view.result)
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


def _ring(view: View, _: Verdict) -> Iterator[Suggestion]:
    """Only in the place of a server that averages: the result is the same."""
    layout, result = Layout.of(view.result), view.result
    is_synchronous = all(worker.times_last is not None for worker in result.workers)
    if not layout.num_servers or not is_synchronous or not result.model_bytes or not view.links:
        return
    if result.touched_rows is not None and not _moves_whole_table(view):
        return
    slowest_link = min(link.bits_per_s for link in view.links)
    travels_s = ring_load(layout) * 8 * result.model_bytes / slowest_link
    num_buckets = -(-result.model_bytes // _BUCKET_BYTES)
    hides_s = min(_BACKWARD * _per_step(view, "compute_s"), (1 - 1 / num_buckets) * travels_s)
    gain = _gain(view, _per_step(view, "transfer_s") - travels_s + hides_s)
    yield Suggestion(
        name="ring",
        advice="use all-reduce, which gives the same result: --strategy ring",
        promise=f"ring would make a step {_shorter(gain)}",
        gain=gain,
    )


def _sparse(view: View, _: Verdict) -> Iterator[Suggestion]:
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


def _moves_whole_table(view: View) -> bool:
    result = view.result
    sent = view.slowest_worker.sent_bytes
    if result.touched_rows is None or not result.model_bytes or sent is None:
        return False
    return sent >= 0.5 * result.model_bytes * view.steps[view.slowest]


def _larger_batch(view: View, _: Verdict) -> Iterator[Suggestion]:
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


def _faster_link(view: View, verdict: Verdict) -> Iterator[Suggestion]:
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


def _mend_straggler(view: View, verdict: Verdict) -> Iterator[Suggestion]:
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


def _read_ahead(view: View, _: Verdict) -> Iterator[Suggestion]:
    """Loading that goes on while a worker does everything else costs only what is longer."""
    load_s = _per_step(view, "load_s")
    gain = _gain(view, min(load_s, _step_s(view) - load_s))
    yield Suggestion(
        name="input",
        advice="read the next batch while this one computes (paceline.workloads.data.stream)",
        promise=f"reading ahead would make a step {_shorter(gain)}",
        gain=gain,
    )


def _more_workers(view: View, _: Verdict) -> Iterator[Suggestion]:
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
