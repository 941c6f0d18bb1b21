"""The claims of `criteo-sparse`, S1 to S8, each judged by the study's runs and by peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from paceline.store.stored import StoredRun
from paceline.studies import measures
from paceline.studies.base import Judged, judged
from paceline.studies.criteo_gradient import ProductTimes
from paceline.studies.criteo_step import SAID_S, STEP_PARTS, DenseStep
from paceline.studies.criteo_stragglers import stragglers
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, known, median, of, per_s, spread, tie
from paceline.studies.peers import against

SYNC: Final = "ps-sync"
ASYNC: Final = "ps-async"
GENERATED: Final = (
    "rows are generated: their labels are not Criteo's; give yours with workload.train"
)


def s1(evidence: Evidence) -> Judged:
    runs = {each: evidence.need("steps", strategy=each) for each in (SYNC, ASYNC)}
    steps, rows = (
        {name: of(found, measure) for name, found in runs.items()}
        for measure in (per_1000_steps, _per_1000_rows)
    )
    is_faster, why_tie = above(steps[SYNC], steps[ASYNC])
    measured = f"{_beside('1,000 global steps', steps)}; {_beside('1,000 rows', rows)}"
    reason = (
        "judged by global steps, as Jin et al. count them: one of sync takes a mini-batch of each "
        f"of the {runs[SYNC][0].result.num_workers} workers, one of async a single one; the "
        "figures per row leave that out"
    )
    return judged(is_faster, measured, f"{why_tie}; {reason}" if why_tie else reason)


def _beside(what: str, times: Mapping[str, Sequence[float]]) -> str:
    """Write what something takes in both modes, and how many times as long in sync."""
    why_tie = tie(times[SYNC], times[ASYNC])
    return (
        f"{what} take {spread(times[ASYNC], '.3g', 's')} in async, "
        f"{spread(times[SYNC], '.3g', 's')} in sync, "
        f"{median(times[SYNC]) / median(times[ASYNC]):.2f} times as long"
        f"{f' ({why_tie})' if why_tie else ''}"
    )


def s2(evidence: Evidence) -> Judged:
    runs = {each: evidence.need("steps", strategy=each) for each in (SYNC, ASYNC)}
    right = {name: _percent(found) for name, found in runs.items()}
    steps = runs[SYNC][0].result.global_steps or 0
    measured = (
        f"at {steps:,} steps {spread(right[SYNC], '.2f', '%')} in sync, "
        f"{spread(right[ASYNC], '.2f', '%')} in async{_beside_larger([*runs[SYNC], *runs[ASYNC]])}"
    )
    if is_generated(runs[SYNC][0]):
        return Judged(measured=measured, judgement="cannot be tested here", reason=GENERATED)
    holds = all(72 <= median(found) <= 75 for found in right.values())
    return judged(holds, measured, "criterion: the medians of both within 72 to 75 %")


def s3(evidence: Evidence) -> Judged:
    parts, rates = [], {}
    for how, group in (("rows", "bottleneck"), ("dense model", "dense")):
        for strategy in (SYNC, ASYNC):
            run = evidence.first(group, strategy=strategy)
            cpu = known(run.result.nodes[0].cpu_percent_mean, "CPU")
            rate = known(per_s(measures.exchanged_bytes(run), run), "traffic") / 1e6
            rates[how, strategy] = rate
            exchange = 100 * measures.share(run, "exchange")
            parts.append(
                f"{how}, {strategy}: CPU {cpu:.0f} %, {rate:,.1f} MB/s, exchange {exchange:.0f} %"
            )
    with_rows, why_tie = above([rates["rows", ASYNC]], [rates["rows", SYNC]])
    dense = rates["dense model", SYNC] > 10 * rates["rows", SYNC]
    reason = (
        "criterion: async moves more than sync where rows move (Jin et al.), and sync ten times as "
        "much "
        "where the dense model does (the untitled report); n=1"
    )
    holds, reasons = [with_rows, dense], [f"rows: {why_tie}", reason] if why_tie else [reason]
    try:
        slow = stragglers(evidence)
    except Untestable as error:
        parts.append(f"stragglers: {error}")
    else:
        holds.append(slow.judgement == "holds")
        parts.append(slow.measured)
        reasons.append(
            f"and that a slow node costs sync more (Jin et al.){slow.reason and f': {slow.reason}'}"
        )
    return judged(all(holds), "; ".join(parts), "; ".join(reasons))


def s4(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for strategy in (SYNC, ASYNC):
        times = {
            batch: of(evidence.need("batch", strategy=strategy, batch=batch), train_s)
            for batch in sorted({1, 100, *evidence.values("batch", "batch", strategy=strategy)})
        }
        middles = {batch: median(found) for batch, found in times.items()}
        best = min(middles, key=lambda batch: middles[batch])
        holds.append(
            middles[1] > 1.8 * middles[100] and middles[100] - middles[best] < 0.25 * middles[1]
        )
        as_good = [str(each) for each in times if each != best and tie(times[each], times[best])]
        also = f", a tie with {' and '.join(as_good)}" if as_good else ""
        texts.append(
            f"{strategy}: {spread(times[1], '.2f', 's')} at batch 1, "
            f"{spread(times[100], '.2f', 's')} at 100; the best batch is {best} with "
            f"{spread(times[best], '.2f', 's')}{also}"
        )
    runs = evidence.find("batch")
    right = [100 * each for each in of(runs, accuracy)]
    if right:
        texts.append(
            f"accuracy from {min(right):.1f} to {max(right):.1f} % over all batches"
            f"{_beside_larger(runs)}"
        )
    reason = "criterion: at least 1.8 times faster by batch 100, no other batch much faster"
    if is_generated(runs[0]):
        return judged(all(holds), "; ".join(texts), f"{reason}; accuracy not: {GENERATED}")
    holds += [70 <= each <= 75 for each in right]
    return judged(all(holds), "; ".join(texts), f"{reason}; accuracy of 70 to 75 %")


def s5(evidence: Evidence) -> Judged:
    dense, sparse = (
        ProductTimes.of(evidence.first(group, strategy=SYNC)) for group in ("dense", "resources")
    )
    if not dense.is_seen:
        raise Untestable("no backward product is in the profile of the dense model")
    measured = f"dense: {dense.text}; with rows: {sparse.text}"
    reason = "criterion: the largest operator of a step where the gradient is dense, and only there"
    if not sparse.is_seen:
        reason += "; the profile with rows does not show it: all that a step computes counts"
    if dense.is_largest and sparse.is_largest is None:
        return Judged(measured=measured, judgement="cannot be tested here", reason=reason)
    return judged(bool(dense.is_largest) and not sparse.is_largest, measured, reason)


def s6(evidence: Evidence) -> Judged:
    found = against(evidence, "scikit-mnist", "scikit-learn")
    return judged(found.is_peer_faster, f"on the dense MNIST rows {found.text}", found.reason)


def s7(evidence: Evidence) -> Judged:
    found = [against(evidence, each, each) for each in ("spark-lbfgs", "spark-sgd")]
    measured = "; ".join(each.text for each in found)
    reason = "; ".join(each.reason for each in found if each.reason)
    return judged(all(each.is_peer_slower for each in found), measured, reason)


def s8(evidence: Evidence) -> Judged:
    run = evidence.first("dense", strategy=SYNC)
    step = DenseStep.of(run)
    spans = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in step.spans.items())
    measured = (
        f"a step takes {step.step_s:.2f} s ({spans}); each worker moves "
        f"{step.moved_bytes / 1e6:,.0f} MB, the model of {step.moved_bytes / 2e6:,.0f} MB both ways"
    )
    published = f"{_published(step)}; see table {STEP_PARTS}"
    if len(run.result.nodes) == 1:
        reason = f"no link of 350 MB/s between seats that share one node; {published}"
        return Judged(measured=measured, judgement="cannot be tested here", reason=reason)
    holds = 0.7 * step.at_once_s < step.step_s < 2.5 * step.at_once_s
    arithmetic = (
        f"the arithmetic {'holds' if holds else 'does not hold'} here: {step.num_workers} workers' "
        f"models at 350 MB/s take {step.at_once_s:.2f} s both ways at once; criterion: a step of "
        "0.7 to 2.5 times that"
    )
    return judged(holds and step.said_reading is not None, measured, f"{arithmetic}; {published}")


def _published(step: DenseStep) -> str:
    """Say whether the published seconds follow from the arithmetic, whatever was measured here."""
    if step.said_reading is not None:
        return f"the published {SAID_S} s follow from it: {step.said_reading}"
    told = ", ".join(f"{seconds:.2f} s {how}" for how, seconds in step.readings.items())
    return f"the published {SAID_S} s do not follow from it, however it is read: {told}"


def both_ways(evidence: Evidence) -> str:
    """Which resource binds, with rows and with the dense model (S3)."""
    shares = {
        (group, each): 100 * measures.share(evidence.first(group, strategy=each), "exchange")
        for group in ("bottleneck", "dense")
        for each in (SYNC, ASYNC)
    }
    used = {
        (group, each): known(
            evidence.first(group, strategy=each).result.nodes[0].cpu_percent_mean, "CPU"
        )
        for group, each in shares
    }
    return (
        f"Exchange takes {shares['bottleneck', SYNC]:.0f} % of a worker's time in sync and "
        f"{shares['bottleneck', ASYNC]:.0f} % in async where rows move, "
        f"{shares['dense', SYNC]:.0f} % and {shares['dense', ASYNC]:.0f} % where the dense model "
        f"does; node 0's CPU is at {used['dense', SYNC]:.0f} % in sync and "
        f"{used['dense', ASYNC]:.0f} % in async there, of a core. What moves is what was varied: "
        "Jin et al. move rows, a step is short, and what binds is who must wait; the untitled "
        "report moves 135 MB twice "
        "a step, and the link binds. The reports' own runtimes and machines were not."
    )


def accuracy_condition(evidence: Evidence) -> str:
    """Whether stale gradients harm (S2 against R6 of `ps-vs-ring`)."""
    runs = {each: evidence.need("steps", strategy=each) for each in (SYNC, ASYNC)}
    right = {name: _percent(found) for name, found in runs.items()}
    why_tie = tie(*([100 - each for each in right[name]] for name in (ASYNC, SYNC)))
    rows = {name: median(of(found, _samples)) for name, found in runs.items()}
    stale = of(runs[ASYNC], _staleness)
    return (
        f"At equal global steps async saw {rows[ASYNC]:,.0f} rows and sync {rows[SYNC]:,.0f}: "
        f"{spread(right[ASYNC], '.2f', '%')} against {spread(right[SYNC], '.2f', '%')}"
        f"{f', {why_tie}' if why_tie else ''}{_beside_larger([*runs[SYNC], *runs[ASYNC]])}. "
        "Async's mean staleness was "
        f"{median(stale) if stale else 0.0:.1f} updates. Two rows share few of that "
        "many features, so a stale weight is seldom one that a gradient touches; how "
        "many they share "
        "was not varied."
    )


def is_generated(run: StoredRun) -> bool:
    """Whether the rows were made up, labels and all."""
    return (run.result.data or "").startswith("generated")


def larger_class(run: StoredRun) -> float | None:
    """The share of the larger class: how often always answering it would be right."""
    return run.result.test_metrics.get("larger_class")


def per_1000_steps(run: StoredRun) -> float | None:
    """Seconds of training for 1,000 global steps."""
    steps = run.result.global_steps
    return 1000 * run.result.train_s / steps if steps and run.result.train_s else None


def train_s(run: StoredRun) -> float | None:
    """Seconds of training, evaluations left out."""
    return run.result.train_s


def accuracy(run: StoredRun) -> float | None:
    """The share of test rows that were told right."""
    return run.result.test_accuracy


def _beside_larger(runs: Sequence[StoredRun]) -> str:
    """Write the share of the larger class beside accuracies; nothing where it is not known."""
    shares = of(runs, larger_class)
    return (
        f"; predicting the majority class alone gives {100 * median(shares):.2f} %"
        if shares
        else ""
    )


def _percent(runs: Sequence[StoredRun]) -> list[float]:
    return [100 * each for each in of(runs, accuracy)]


def _per_1000_rows(run: StoredRun) -> float | None:
    rows = run.result.samples
    return 1000 * run.result.train_s / rows if rows and run.result.train_s else None


def _samples(run: StoredRun) -> float | None:
    return run.result.samples


def _staleness(run: StoredRun) -> float | None:
    return run.result.staleness.mean if run.result.staleness else None


CLAIMS: Final[Mapping[str, Callable[[Evidence], Judged]]] = {
    "S1": s1,
    "S2": s2,
    "S3": s3,
    "S4": s4,
    "S5": s5,
    "S6": s6,
    "S7": s7,
    "S8": s8,
}
CONDITIONS: Final[Mapping[str, Callable[[Evidence], str]]] = {
    "S3": both_ways,
    "S2 and R6": accuracy_condition,
}
