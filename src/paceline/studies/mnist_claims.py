"""The claims of `mnist-logistic`, L1 to L19, each judged by the study's runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from paceline.store.stored import StoredRun
from paceline.studies import measures
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, median, node, of, spread
from paceline.studies.mnist_sides import (
    ASYNC,
    BATCHES,
    SYNC,
    by_batch,
    cpu,
    losses_at,
    memory,
    moved_bytes,
    of_node,
    ratio,
    sides,
    traffic,
    train_s,
)

_ALIKE: Final = 0.05
"""What differs by less than this part cannot be told apart by eye."""
_DIP: Final = 0.9


def l1(evidence: Evidence) -> Judged:
    runs = evidence.need("single")
    losses = of(runs, lambda run: run.result.test_loss)
    accuracies = [100 * each for each in of(runs, lambda run: run.result.test_accuracy)]
    holds = abs(median(losses) - 0.33) <= 0.03 and abs(median(accuracies) - 90.13) <= 1
    measured = f"test loss {spread(losses)}, accuracy {spread(accuracies, '.2f', '%')}"
    return judged(holds, measured, "criterion: within 0.03 and within 1 % of what was published")


def l2(evidence: Evidence) -> Judged:
    _, text = ratio(evidence, SYNC, ASYNC, train_s)
    holds, tie = above(*sides(evidence, SYNC, ASYNC, train_s))
    measured = f"sync takes {text} times as long as async, equal steps of each worker"
    return judged(holds, measured, tie)


def l3(evidence: Evidence) -> Judged:
    gaps = of(evidence.need("resources", strategy=ASYNC), measures.finish_spread)
    measured = f"the first ends {100 * median(gaps):.1f} % before the last"
    return judged(median(gaps) < 0.1, measured, "criterion: less than 10 %")


def l4(evidence: Evidence) -> Judged:
    losses = losses_at(evidence, "pair", "samples", num_workers=3)
    tie = measures.tie(losses.sync, losses.free)
    is_alike = abs(losses.gap) <= _ALIKE
    if is_alike:
        reason = f"less than {100 * _ALIKE:.0f} % apart"
    else:
        reason = tie or "at equal samples sync has made a third of the updates"
    return judged(is_alike or bool(tie), losses.text, reason)


def l5(evidence: Evidence) -> Judged:
    # Which one falls faster shows while both still fall: a third of the way they have met.
    losses = losses_at(evidence, "batch", "steps", part=0.1, batch=10)
    later = losses_at(evidence, "batch", "steps", batch=10)
    noise = [
        of(evidence.need("batch", strategy=each, batch=10), measures.noise)
        for each in (ASYNC, SYNC)
    ]
    is_faster, tie = above(losses.free, losses.sync)
    is_noisier, noise_tie = above(*noise)
    measured = (
        f"{losses.text}; {later.text}; losses of mini-batches vary by "
        f"{median(noise[0]):.3f} (async), {median(noise[1]):.3f} (sync)"
    )
    reasons = [f"loss: {tie}"] if tie else []
    if not is_noisier:
        told = noise_tie or "async is the steadier one"
        reasons.append(f"noise: {told}; a worker's mini-batch is as large in both modes")
    return judged(is_faster and is_noisier, measured, "; ".join(reasons))


def l6(evidence: Evidence) -> Judged:
    at_75 = [of_node(evidence, each, cpu) for each in (ASYNC, SYNC)]
    at_10 = [
        of(evidence.need("batch", strategy=each, batch=10), lambda run: cpu(node(run, 0)))
        for each in (ASYNC, SYNC)
    ]
    measured = (
        f"batch 75: async {spread(at_75[0], '.0f', '%')}, sync {spread(at_75[1], '.0f', '%')} of a "
        f"core; batch 10: async {spread(at_10[0], '.0f', '%')}, sync {spread(at_10[1], '.0f', '%')}"
    )
    (first, tie_75), (second, tie_10) = above(*at_75), above(at_10[1], at_10[0])
    right = [name for name, holds in (("Bhat et al.", first), ("Liu et al.", second)) if holds]
    reason = f"right here, each at its own batch: {' and '.join(right) or 'neither'}"
    ties = [f"batch {batch} is {tie}" for batch, tie in ((75, tie_75), (10, tie_10)) if tie]
    return judged(first and second, measured, "; ".join([reason, *ties]))


def l7(evidence: Evidence) -> Judged:
    peaks = [[each / 1e6 for each in of_node(evidence, name, memory)] for name in (SYNC, ASYNC)]
    measured = (
        f"node 0 at most {spread(peaks[0], ',.0f', 'MB')} in sync, "
        f"{spread(peaks[1], ',.0f', 'MB')} in async"
    )
    is_more, tie = above(*peaks)
    holds = is_more and median(peaks[0]) > 1.02 * median(peaks[1])
    return judged(holds, measured, tie or "criterion: 2 % more")


def l8(evidence: Evidence) -> Judged:
    _, text = ratio(evidence, ASYNC, SYNC, traffic)
    holds, tie = above(*sides(evidence, ASYNC, SYNC, traffic))
    return judged(holds, f"async moves {text} times as many bytes per second as sync", tie)


def l9(evidence: Evidence) -> Judged:
    ratios = [_sum_ratio(run) for run in evidence.need("resources")]
    measured = f"node 0's bytes are {spread(ratios, '.3f')} times the others' together"
    return judged(abs(median(ratios) - 1) <= 0.1, measured, "criterion: within 10 %")


def l10(evidence: Evidence) -> Judged:
    runs = [evidence.need("batch", strategy=each, batch=10) for each in (ASYNC, SYNC)]
    rates = [median(of(each, lambda run: run.result.steps_per_s)) for each in runs]
    times = rates[0] / rates[1]
    work, _ = ratio(evidence, ASYNC, SYNC, lambda run: run.result.worker_steps_per_s)
    measured = (
        f"{rates[0]:,.0f} against {rates[1]:,.0f} global steps/s at batch 10: {times:.2f} times; "
        f"worker steps per second at batch 75: {work:.2f} times"
    )
    reason = "a global step of sync takes the mini-batches of all three workers, one of async one"
    reason += "; criterion: 2 to 5 times"
    return judged(2 <= times <= 5, measured, reason)


def l11(evidence: Evidence) -> Judged:
    del evidence
    raise Untestable("all workers start together here: `paceline study faults` judges it")


def l12(evidence: Evidence) -> Judged:
    runs = evidence.find("pair", strategy=SYNC, num_workers=3)
    runs += evidence.find("batch", strategy=SYNC)
    if not runs:
        raise evidence.lacking("pair", strategy=SYNC)
    ratios = {
        what: found
        for what, column in (("CPU", "cpu_percent"), ("network", "net_sent_bytes_per_s"))
        if (found := of(runs, partial(measures.epoch_dip, column=column)))
    }
    if not ratios:
        most = max(measures.samples_per_epoch(run) for run in runs)
        raise Untestable(
            f"node 0 was sampled at most {most:.1f} times per epoch: to see the end of one it "
            f"takes {measures.LEAST_SAMPLES}, and {measures.LEAST_ENDS + 1} epochs"
        )
    shown = ", ".join(f"{what} {spread(found, '.2f')} times" for what, found in ratios.items())
    dips = [median(found) < _DIP for found in ratios.values()]
    reason = "criterion: at most 0.9 times"
    if not all(dips):
        reason += "; an epoch's end is no event here: data is in memory, its order known ahead"
    return judged(all(dips), f"around the ends of epochs, over what is in between: {shown}", reason)


def l13(evidence: Evidence) -> Judged:
    drifts = of(evidence.need("resources"), measures.memory_drift)
    if not drifts:
        raise Untestable("the runs were too short for samples of memory")
    measured = f"in the second half memory moves by {100 * max(drifts):.1f} % at most"
    return judged(max(drifts) < 0.05, measured, "criterion: less than 5 %")


def l14(evidence: Evidence) -> Judged:
    parts = []
    shares = {}
    for name in (ASYNC, SYNC):
        runs = evidence.need("resources", strategy=name)
        shares[name] = [measures.share(run, "exchange") for run in runs]
        parts.append(f"{name}: {100 * median(shares[name]):.0f} % of a worker's time is exchange")
        verdict = runs[0].result.verdict
        if verdict is not None:
            parts[-1] += f" ({verdict.sentence})"
    waits_more, tie = above(shares[SYNC], shares[ASYNC])
    holds = min(map(median, shares.values())) > 0.5 and waits_more
    reason = "exchange is sending, receiving and waiting for others; criterion: more than half"
    return judged(holds, "; ".join(parts), f"{reason}; {tie}" if tie else reason)


def l15(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for name in (ASYNC, SYNC):
        runs = by_batch(evidence, name)
        rates = [median(of(each, traffic)) for each in runs]
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
    reason = "criterion: 0.5 to 1 times, less than 1 %, 10 % and 10 %"
    return judged(all(holds), "; ".join(texts), reason)


def l16(evidence: Evidence) -> Judged:
    noise = [median(of(each, measures.noise)) for each in by_batch(evidence, ASYNC)]
    shown = ", ".join(f"{batch}: {each:.3f}" for batch, each in zip(BATCHES, noise, strict=True))
    return judged(noise == sorted(noise, reverse=True), f"spread of mini-batch losses, {shown}")


def l17(evidence: Evidence) -> Judged:
    parts, holds = [], []
    for name in (ASYNC, SYNC):
        for what, measure in (("CPU", cpu), ("memory", memory), ("network", moved_bytes)):
            first, second = (of_node(evidence, name, measure, index) for index in (0, 1))
            is_more, tie = above(first, second)
            holds.append(is_more)
            times = median(first) / max(median(second), 1e-9)
            parts.append(f"{name} {what} {times:.2f} times{f' ({tie})' if tie else ''}")
    return judged(all(holds), f"node 0 over node 1: {', '.join(parts)}")


def l18(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for name in (ASYNC, SYNC):
        times = [of(each, train_s) for each in by_batch(evidence, name)]
        is_sooner, tie = above(times[0], times[-1])
        holds.append(is_sooner)
        texts.append(
            f"{name}: {spread(times[0], '.1f', 's')} at batch 5, {spread(times[-1], '.1f', 's')} "
            f"at batch 40{f', {tie}' if tie else ''}"
        )
    return judged(all(holds), "; ".join(texts))


def l19(evidence: Evidence) -> Judged:
    equal, unequal = (
        median(of(evidence.need("unequal", node2=cpus), measures.finish_spread))
        for cpus in (1.0, 0.25)
    )
    measured = f"workers end {100 * equal:.0f} % apart on equal nodes, {100 * unequal:.0f} % apart"
    measured += " with a quarter of a core on node 2"
    return judged(unequal > 2 * equal, measured, "criterion: more than twice as far apart")


def _sum_ratio(run: StoredRun) -> float:
    first, *others = (moved_bytes(node(run, index)) for index in range(run.result.num_workers))
    return first / max(sum(others), 1)


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
