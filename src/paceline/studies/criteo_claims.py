"""The claims of `criteo-sparse`, S1 to S8, each judged by the study's runs and by peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paceline.stored import StoredRun
from paceline.studies import measures
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, of, per_s

SYNC: Final = "ps-sync"
ASYNC: Final = "ps-async"
LINK_BYTES_PER_S: Final = 350e6
"""What report 003's machines moved at most."""
_PEERS: Final = "python benchmarks/study_peers.py --peers PYTHON --out FOLDER measures it"


def s1(evidence: Evidence) -> Judged:
    times = {
        each: median(of(evidence.need("steps", strategy=each), _per_1000)) for each in (SYNC, ASYNC)
    }
    measured = f"1,000 steps take {times[ASYNC]:.3f} s in async, {times[SYNC]:.3f} s in sync"
    reason = "a global step of sync takes the rows of all four workers, one of async those of one"
    return judged(times[ASYNC] < times[SYNC], measured, reason)


def s2(evidence: Evidence) -> Judged:
    runs = {each: evidence.first("steps", strategy=each) for each in (SYNC, ASYNC)}
    shares = {name: 100 * known(run.result.test_accuracy, "accuracy") for name, run in runs.items()}
    larger = 100 * known(runs[SYNC].result.test_metrics.get("larger_class"), "the larger class")
    steps = runs[SYNC].result.global_steps or 0
    measured = (
        f"at {steps:,} steps {shares[SYNC]:.2f} % in sync, {shares[ASYNC]:.2f} % in async; the "
        f"larger class alone is {larger:.2f} %"
    )
    if (runs[SYNC].result.data or "").startswith("generated"):
        reason = "rows are generated: their labels are not Criteo's; give yours with workload.train"
        return Judged(measured=measured, judgement="cannot be tested here", reason=reason)
    return judged(all(72 <= share <= 75 for share in shares.values()), measured)


def s3(evidence: Evidence) -> Judged:
    parts, found = [], {}
    for how, group in (("rows", "bottleneck"), ("dense model", "dense")):
        for strategy in (SYNC, ASYNC):
            run = evidence.first(group, strategy=strategy)
            cpu = known(run.result.nodes[0].cpu_percent_mean, "CPU")
            rate = known(per_s(measures.exchanged_bytes(run), run), "traffic") / 1e6
            found[how, strategy] = (cpu, rate)
            exchange = 100 * measures.share(run, "exchange")
            parts.append(
                f"{how}, {strategy}: CPU {cpu:.0f} %, {rate:,.1f} MB/s, exchange {exchange:.0f} %"
            )
    with_rows = found["rows", ASYNC][1] > found["rows", SYNC][1]
    dense = found["dense model", SYNC][1] > 10 * found["rows", SYNC][1]
    reason = "002 is right where rows move, 003 where the dense model does"
    return judged(with_rows and dense, "; ".join(parts), reason)


def s4(evidence: Evidence) -> Judged:
    batches = evidence.values("batch", "batch")
    texts, holds = [], []
    for strategy in (SYNC, ASYNC):
        times = {
            batch: median(of(evidence.need("batch", strategy=strategy, batch=batch), _train_s))
            for batch in batches
        }
        best = min(times, key=lambda batch: times[batch])
        holds.append(times[1] > 1.8 * times[100] and times[100] - times[best] < 0.25 * times[1])
        texts.append(
            f"{strategy}: {times[1]:.2f} s at batch 1, {times[100]:.2f} s at 100, the best is "
            f"batch {best} with {times[best]:.2f} s"
        )
    return judged(all(holds), "; ".join(texts), "asked for: at least 1.8 times faster by batch 100")


def s5(evidence: Evidence) -> Judged:
    dense, sparse = (
        operator_ms(evidence.first(group, strategy=SYNC)) for group in ("dense", "resources")
    )
    texts = [_largest(how, times) for how, times in (("dense", dense), ("with rows", sparse))]
    in_size = sum(dense.values()) / max(sum(sparse.values()), 1e-9)
    reason = "asked for: operators of a step take 10 times as long where the gradient is dense"
    measured = f"{'; '.join(texts)}: {in_size:.0f} times"
    return judged(in_size > 10, measured, reason)


def s6(evidence: Evidence) -> Judged:
    ratio, text = _against(evidence, "scikit-mnist", "scikit-learn")
    return judged(ratio < 1, f"on the dense MNIST rows {text}")


def s7(evidence: Evidence) -> Judged:
    found = [_against(evidence, each, each) for each in ("spark-lbfgs", "spark-sgd")]
    return judged(all(ratio > 1 for ratio, _ in found), "; ".join(text for _, text in found))


def s8(evidence: Evidence) -> Judged:
    run = evidence.first("dense", strategy=SYNC)
    step_s = known(run.result.train_s, "time") / max(run.result.global_steps or 1, 1)
    workers = run.result.num_workers
    moved = known(measures.exchanged_bytes(run), "traffic") / max(run.result.worker_steps, 1)
    expected_s = workers * moved / 2 / LINK_BYTES_PER_S
    parts = ", ".join(
        f"{phase} {1000 * _part(run, phase):,.0f} ms" for phase in ("load", "compute", "exchange")
    )
    measured = (
        f"a step takes {step_s:.2f} s ({parts}); each worker moves {moved / 1e6:,.0f} MB, the "
        f"model of {moved / 2e6:,.0f} MB both ways"
    )
    reason = (
        f"by arithmetic {workers} workers' models at 350 MB/s take {expected_s:.1f} s both ways at "
        f"once, {2 * expected_s:.1f} s one way after the other, {4 * expected_s:.1f} s as float64, "
        "which is near 003's 7.121 s"
    )
    if len(run.result.nodes) == 1:
        return Judged(
            measured=measured,
            judgement="cannot be tested here",
            reason=f"no link of 350 MB/s between seats that share one node; {reason}",
        )
    return judged(0.7 * expected_s < step_s < 2.5 * expected_s, measured, reason)


def both_ways(evidence: Evidence) -> str:
    """Which resource binds, with rows and with the dense model (S3)."""
    shares = {
        (group, each): 100 * measures.share(evidence.first(group, strategy=each), "exchange")
        for group in ("bottleneck", "dense")
        for each in (SYNC, ASYNC)
    }
    return (
        f"Exchange takes {shares['bottleneck', SYNC]:.0f} % of a worker's time in sync and "
        f"{shares['bottleneck', ASYNC]:.0f} % in async where rows move, "
        f"{shares['dense', SYNC]:.0f} % and {shares['dense', ASYNC]:.0f} % where the dense model "
        "does. 002 moves rows: a step is short, and what binds is who must wait. 003 moves 135 MB "
        "twice a step: the link binds whoever uses it, and in async the copies cost the CPU."
    )


def accuracy_condition(evidence: Evidence) -> str:
    """Whether stale gradients harm (S2 against R6 of `ps-vs-ring`)."""
    runs = {each: evidence.first("steps", strategy=each) for each in (SYNC, ASYNC)}
    right = {name: 100 * (run.result.test_accuracy or 0) for name, run in runs.items()}
    rows = {name: run.result.samples for name, run in runs.items()}
    stale = runs[ASYNC].result.staleness
    return (
        f"At equal global steps async saw {rows[ASYNC]:,} rows and sync {rows[SYNC]:,}: "
        f"{right[ASYNC]:.2f} against {right[SYNC]:.2f} %. Async's mean staleness was "
        f"{0.0 if stale is None else stale.mean:.1f} updates; two rows of so many features hardly "
        "meet, so stale weights are seldom those a gradient touches."
    )


def _per_1000(run: StoredRun) -> float | None:
    steps = run.result.global_steps
    return 1000 * run.result.train_s / steps if steps and run.result.train_s else None


def _train_s(run: StoredRun) -> float | None:
    return run.result.train_s


def _part(run: StoredRun, phase: str) -> float:
    spans = [
        known(getattr(each, f"{phase}_s"), "the parts of a step") for each in run.result.workers
    ]
    return sum(spans) / max(run.result.worker_steps, 1)


def operator_ms(run: StoredRun) -> dict[str, float]:
    """Milliseconds that each operator of worker 0 takes of a step, without those it calls."""
    times: dict[str, float] = {}
    for row in run.folder.read_operators("worker0"):
        name = str(row["operator"]).removeprefix("aten::")
        times[name] = times.get(name, 0.0) + float(row["ms_per_step"])
    if not times:
        raise Untestable("the runs were not profiled (record.profile)")
    return times


def _largest(how: str, times: Mapping[str, float]) -> str:
    name = max(times, key=lambda each: times[each])
    total = sum(times.values())
    return f"{how} {total:.2f} ms a step, {100 * times[name] / total:.0f} % of it {name}"


def _against(evidence: Evidence, name: str, called: str) -> tuple[float, str]:
    """How many times our time a peer took to the same log loss, and that in words."""
    if name not in evidence.peers:
        raise Untestable(f"{name} was not measured into this folder: {_PEERS}")
    peer: Mapping[str, Any] = evidence.peers[name]
    if "reason" in peer:
        raise Untestable(f"{name} did not run: {peer['reason']}")
    text = (
        f"{called} reaches log loss {peer['log_loss']:.4f} in {peer['peer_s']:.2f} s, `single` in "
        f"{peer['ours_s']:.2f} s: {peer['ratio']:.2f} times ({peer['ratio_low']:.2f} to "
        f"{peer['ratio_high']:.2f}, n={peer['n']}; {peer['setting']})"
    )
    return float(peer["ratio"]), text


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
