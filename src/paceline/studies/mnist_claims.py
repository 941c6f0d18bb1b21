"""The claims of `mnist-logistic`, L1 to L19, each judged by the study's runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from paceline.results import NodeUsage
from paceline.stored import StoredRun
from paceline.studies import measures
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node, node_bytes, of, per_s, spread

ASYNC: Final = "ps-async"
SYNC: Final = "ps-sync"
BATCHES: Final = (5, 10, 20, 30, 40)
_ALIKE: Final = 0.05
"""What differs by less than this part cannot be told apart by eye."""


def l1(evidence: Evidence) -> Judged:
    runs = evidence.need("single")
    losses = of(runs, lambda run: run.result.test_loss)
    accuracies = [100 * each for each in of(runs, lambda run: run.result.test_accuracy)]
    holds = abs(median(losses) - 0.33) <= 0.03 and abs(median(accuracies) - 90.13) <= 1
    measured = f"test loss {spread(losses)}, accuracy {spread(accuracies, '.2f', '%')}"
    return judged(holds, measured, "asked for: within 0.03 and within 1 % of what was published")


def l2(evidence: Evidence) -> Judged:
    ratio, text = _ratio(evidence, SYNC, ASYNC, lambda run: run.result.train_s)
    return judged(
        ratio > 1, f"sync takes {text} times as long as async, equal steps of each worker"
    )


def l3(evidence: Evidence) -> Judged:
    gaps = of(evidence.need("resources", strategy=ASYNC), measures.finish_spread)
    return judged(median(gaps) < 0.1, f"the first ends {100 * median(gaps):.1f} % before the last")


def l4(evidence: Evidence) -> Judged:
    gap, text = _loss_gap(evidence, "pair", "samples", num_workers=3)
    reason = (
        "at equal samples sync has made a third of the updates"
        if abs(gap) > _ALIKE
        else f"less than {100 * _ALIKE:.0f} % apart"
    )
    return judged(abs(gap) <= _ALIKE, text, reason)


def l5(evidence: Evidence) -> Judged:
    gap, text = _loss_gap(evidence, "batch", "steps", batch=10)
    noise = [
        median(of(evidence.need("batch", strategy=each, batch=10), measures.noise))
        for each in (ASYNC, SYNC)
    ]
    measured = (
        f"{text}; losses of mini-batches vary by {noise[0]:.3f} (async), {noise[1]:.3f} (sync)"
    )
    reason = "a worker's mini-batch is as large in both modes, so its loss is as noisy"
    return judged(gap < 0 and noise[0] > noise[1], measured, reason if noise[0] <= noise[1] else "")


def l6(evidence: Evidence) -> Judged:
    at_75 = [_node_median(evidence, each, _cpu) for each in (ASYNC, SYNC)]
    at_10 = [
        median(of(evidence.need("batch", strategy=each, batch=10), lambda run: _cpu(node(run, 0))))
        for each in (ASYNC, SYNC)
    ]
    measured = (
        f"batch 75: async {at_75[0]:.0f} %, sync {at_75[1]:.0f} % of a core; "
        f"batch 10: async {at_10[0]:.0f} %, sync {at_10[1]:.0f} %"
    )
    first, second = at_75[0] > at_75[1], at_10[1] > at_10[0]
    right = [name for name, holds in (("000", first), ("001", second)) if holds]
    reason = f"right here, each at its own batch: {' and '.join(right) or 'neither'}"
    return judged(first and second, measured, reason)


def l7(evidence: Evidence) -> Judged:
    peaks = [_node_median(evidence, each, _memory) / 1e6 for each in (SYNC, ASYNC)]
    measured = f"node 0 at most {peaks[0]:,.0f} MB in sync, {peaks[1]:,.0f} MB in async"
    return judged(peaks[0] > 1.02 * peaks[1], measured, "asked for: 2 % more")


def l8(evidence: Evidence) -> Judged:
    ratio, text = _ratio(evidence, ASYNC, SYNC, _traffic)
    return judged(ratio > 1, f"async moves {text} times as many bytes a second as sync")


def l9(evidence: Evidence) -> Judged:
    ratios = [_sum_ratio(run) for run in evidence.need("resources")]
    measured = f"node 0's bytes are {spread(ratios, '.3f')} times the others' together"
    return judged(abs(median(ratios) - 1) <= 0.1, measured)


def l10(evidence: Evidence) -> Judged:
    runs = [evidence.need("batch", strategy=each, batch=10) for each in (ASYNC, SYNC)]
    rates = [median(of(each, lambda run: run.result.steps_per_s)) for each in runs]
    ratio = rates[0] / rates[1]
    work, _ = _ratio(evidence, ASYNC, SYNC, lambda run: run.result.worker_steps_per_s)
    measured = (
        f"{rates[0]:,.0f} against {rates[1]:,.0f} global steps/s at batch 10: {ratio:.2f} times; "
        f"steps of workers a second at batch 75: {work:.2f} times"
    )
    reason = "a global step of sync takes the mini-batches of all three workers, one of async one"
    return judged(2 <= ratio <= 5, measured, reason)


def l11(evidence: Evidence) -> Judged:
    del evidence
    raise Untestable("workers cannot join a run that has started yet: all start together")


def l12(evidence: Evidence) -> Judged:
    runs = evidence.need("pair", strategy=SYNC, num_workers=3)
    ratios = of(runs, measures.epoch_dip)
    if not ratios:
        raise Untestable("the runs were too short for samples at the ends of their epochs")
    measured = f"CPU around the ends of epochs is {spread(ratios, '.2f')} times that in between"
    reason = "an epoch's end is no event here: data is in memory and its order is known ahead"
    return judged(median(ratios) < 0.9, measured, reason if median(ratios) >= 0.9 else "")


def l13(evidence: Evidence) -> Judged:
    drifts = of(evidence.need("resources"), measures.memory_drift)
    if not drifts:
        raise Untestable("the runs were too short for samples of memory")
    measured = f"in the second half memory moves by {100 * max(drifts):.1f} % at most"
    return judged(max(drifts) < 0.05, measured)


def l14(evidence: Evidence) -> Judged:
    parts = []
    shares = {}
    for name in (ASYNC, SYNC):
        runs = evidence.need("resources", strategy=name)
        shares[name] = median(measures.share(run, "exchange") for run in runs)
        parts.append(f"{name}: {100 * shares[name]:.0f} % of a worker's time is exchange")
        verdict = getattr(runs[0].result, "verdict", None)
        if verdict is not None:
            parts[-1] += f" ({verdict.sentence})"
    holds = min(shares.values()) > 0.5 and shares[SYNC] > shares[ASYNC]
    return judged(holds, "; ".join(parts), "exchange is sending, receiving and waiting for others")


def l15(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for name in (ASYNC, SYNC):
        runs = _by_batch(evidence, name)
        rates = [median(of(each, _traffic)) for each in runs]
        accuracies = [median(of(each, lambda run: run.result.test_accuracy)) for each in runs]
        cpus = [median(of(each, lambda run: run.result.nodes[0].cpu_percent_mean)) for each in runs]
        kept = [
            median(of(each, lambda run: run.result.nodes[0].memory_peak_bytes)) for each in runs
        ]
        holds += [
            0.5 < rates[-1] / rates[0] < 1,
            max(accuracies) - min(accuracies) < 0.01,
            max(cpus) / min(cpus) < 1.1,
            max(kept) / min(kept) < 1.1,
        ]
        texts.append(
            f"{name}: from batch 5 to 40 bytes/s change to {rates[-1] / rates[0]:.2f} times, "
            f"accuracy moves by {100 * (max(accuracies) - min(accuracies)):.2f} %, CPU by "
            f"{100 * (max(cpus) / min(cpus) - 1):.0f} %, memory by "
            f"{100 * (max(kept) / min(kept) - 1):.0f} %"
        )
    reason = "asked for: 0.5 to 1 times, less than 1 %, 10 % and 10 %"
    return judged(all(holds), "; ".join(texts), reason)


def l16(evidence: Evidence) -> Judged:
    noise = [median(of(each, measures.noise)) for each in _by_batch(evidence, ASYNC)]
    shown = ", ".join(f"{batch}: {each:.3f}" for batch, each in zip(BATCHES, noise, strict=True))
    return judged(noise == sorted(noise, reverse=True), f"spread of mini-batch losses, {shown}")


def l17(evidence: Evidence) -> Judged:
    parts, holds = [], []
    for name in (ASYNC, SYNC):
        for what, measure in (("CPU", _cpu), ("memory", _memory), ("network", _bytes)):
            ratio = _node_median(evidence, name, measure) / _node_median(
                evidence, name, measure, index=1
            )
            holds.append(ratio > 1)
            parts.append(f"{name} {what} {ratio:.2f} times")
    return judged(all(holds), f"node 0 over node 1: {', '.join(parts)}")


def l18(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for name in (ASYNC, SYNC):
        times = [
            median(of(each, lambda run: run.result.train_s)) for each in _by_batch(evidence, name)
        ]
        holds.append(times[-1] < times[0])
        texts.append(f"{name}: {times[0]:.1f} s at batch 5, {times[-1]:.1f} s at batch 40")
    return judged(all(holds), "; ".join(texts))


def l19(evidence: Evidence) -> Judged:
    equal, unequal = (
        median(of(evidence.need("unequal", node2=cpus), measures.finish_spread))
        for cpus in (1.0, 0.25)
    )
    measured = f"workers end {100 * equal:.0f} % apart on equal nodes, {100 * unequal:.0f} % apart"
    return judged(unequal > 2 * equal, f"{measured} with a quarter of a core on node 2")


def loss_condition(evidence: Evidence) -> str:
    """When loss over steps and loss over samples tell the modes apart (L4, L5)."""
    by_samples, _ = _loss_gap(evidence, "pair", "samples", num_workers=3)
    by_steps, _ = _loss_gap(evidence, "pair", "steps", num_workers=3)
    return (
        f"At batch 75 the loss of sync differs from async's by {100 * by_samples:+.0f} % at equal "
        f"samples and by {100 * by_steps:+.0f} % at equal global steps. An update of sync averages "
        "three mini-batches at the same learning rate: over samples it makes a third of the "
        "updates, over steps it sees three times the rows. Where the curves have become flat both "
        "reports are right."
    )


def cpu_condition(evidence: Evidence) -> str:
    """When async's CPU is above sync's (L6)."""
    shares = [
        median(measures.share(run, "compute") for run in evidence.need("resources", strategy=each))
        for each in (ASYNC, SYNC)
    ]
    return (
        f"Workers compute for {100 * shares[0]:.0f} % of their time in async and "
        f"{100 * shares[1]:.0f} % in sync. Where sync waits idle, its CPU is lower (000); where "
        "waiting itself costs CPU, as in 001's runtime, it is higher."
    )


def memory_condition(evidence: Evidence) -> str:
    """When sync needs more memory (L7, L13)."""
    peaks = [
        median(of(evidence.need("resources", strategy=each), _peak)) / 1e6 for each in (ASYNC, SYNC)
    ]
    return (
        f"Node 0 takes {peaks[0]:,.0f} MB in async and {peaks[1]:,.0f} MB in sync. Sync keeps one "
        "gradient a worker until all are there: 31 KB each for this model, which no node notices. "
        "000's gap is its runtime's queues; 001 saw no notable difference, and where models are "
        "small there is none."
    )


def rate_condition(evidence: Evidence) -> str:
    """When async makes three times the steps of sync (L10)."""
    steps, _ = _ratio(evidence, ASYNC, SYNC, lambda run: run.result.steps_per_s)
    work, _ = _ratio(evidence, ASYNC, SYNC, lambda run: run.result.worker_steps_per_s)
    return (
        f"Counted in global steps async makes {steps:.2f} times as many a second as sync (001), "
        f"counted in mini-batches {work:.2f} times (000): a global step of sync is three "
        "mini-batches. The two reports count different things and are both right about them."
    )


def _ratio(
    evidence: Evidence, above: str, below: str, measure: Callable[[StoredRun], float | None]
) -> tuple[float, str]:
    """Compare two strategies at equal steps of each worker."""
    over = of(evidence.need("resources", strategy=above), measure)
    under = of(evidence.need("resources", strategy=below), measure)
    ratios = [one / other for one, other in zip(over, under, strict=False)]
    return median(ratios), spread(ratios, ".2f")


def _loss_gap(evidence: Evidence, group: str, axis: str, **tags: int) -> tuple[float, str]:
    """By which part sync's loss is above async's, a third of the way along an axis."""
    runs = {each: evidence.need(group, strategy=each, **tags) for each in (ASYNC, SYNC)}
    place = measures.reach([run for each in runs.values() for run in each], axis) / 3
    losses = {
        each: of(found, lambda run: measures.loss_at(run, axis, place))
        for each, found in runs.items()
    }
    gap = median(losses[SYNC]) / median(losses[ASYNC]) - 1
    text = (
        f"at {place:,.0f} {axis} the loss is {spread(losses[SYNC])} in sync, "
        f"{spread(losses[ASYNC])} in async"
    )
    return gap, text


def _by_batch(evidence: Evidence, strategy: str) -> list[list[StoredRun]]:
    return [evidence.need("batch", strategy=strategy, batch=batch) for batch in BATCHES]


def _node_median(
    evidence: Evidence, strategy: str, measure: Callable[[NodeUsage], float], index: int = 0
) -> float:
    runs: Sequence[StoredRun] = evidence.need("resources", strategy=strategy)
    return median(measure(node(run, index)) for run in runs)


def _sum_ratio(run: StoredRun) -> float:
    first, *others = (_bytes(node(run, index)) for index in range(run.result.num_workers))
    return first / max(sum(others), 1)


def _traffic(run: StoredRun) -> float | None:
    """Bytes a second of node 0's link, or of all workers where nodes have none."""
    counted = None
    if len(run.result.nodes) > 1:
        counted = node_bytes(node(run, 0))
    return per_s(counted if counted is not None else measures.exchanged_bytes(run), run)


def _peak(run: StoredRun) -> float | None:
    return run.result.nodes[0].memory_peak_bytes


def _cpu(usage: NodeUsage) -> float:
    return known(usage.cpu_percent_mean, "CPU")


def _memory(usage: NodeUsage) -> float:
    return known(usage.memory_peak_bytes, "memory")


def _bytes(usage: NodeUsage) -> float:
    return known(node_bytes(usage), "the traffic of nodes")


CLAIMS: Final[Mapping[str, Callable[[Evidence], Judged]]] = {
    "L1": l1,
    "L2": l2,
    "L3": l3,
    "L4": l4,
    "L5": l5,
    "L6": l6,
    "L7": l7,
    "L8": l8,
    "L9": l9,
    "L10": l10,
    "L11": l11,
    "L12": l12,
    "L13": l13,
    "L14": l14,
    "L15": l15,
    "L16": l16,
    "L17": l17,
    "L18": l18,
    "L19": l19,
}
CONDITIONS: Final[Mapping[str, Callable[[Evidence], str]]] = {
    "L4 and L5": loss_condition,
    "L6": cpu_condition,
    "L7 and L13": memory_condition,
    "L10": rate_condition,
}
