"""The claims of `ps-vs-ring`, R1 to R7, and the closed form they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paceline.closed_form import Gradient, Link, Step, ps_sync_step_s
from paceline.stored import StoredRun
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import known, median, node_bytes, of, spread

SYNC: Final = "ps-sync"
ASYNC: Final = "ps-async"
# Report 004, table 3.1: size in MB (of 2**20 bytes), and images a second of one K80.
MODELS: Final = {
    "alexnet-cifar10": (233, 656.0),
    "vgg16-cifar10": (528, 35.4),
    "vgg19-cifar10": (548, 28.0),
    "resnet50-cifar10": (98, 51.5),
    "resnet152-cifar10": (230, 20.0),
}
_MIB: Final = 2**20
_NEAR: Final = 0.8
"""Of the ideal speed-up: what is called near proportional."""


def r1(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload in evidence.values("ring", "workload"):
        counts = evidence.values("ring", "num_workers")
        most = max(counts)
        ps = _speed_up(evidence, "ps", workload, most, strategy=SYNC)
        ring = _speed_up(evidence, "ring", workload, most)
        holds.append(ps < _NEAR * most and ring >= _NEAR * most)
        texts.append(f"{_short(workload)}: PS {ps:.2f}, ring {ring:.2f} of {most}")
    if not texts:
        evidence.need("ring")
    texts += _from_which_ratio(evidence)
    return judged(all(holds), "; ".join(texts), "near proportional: at least 0.8 of the workers")


def r2(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload in evidence.values("ps", "workload"):
        counts = [each for each in evidence.values("ps", "num_workers") if each > 1]
        each_step = [_server_bytes(evidence, workload, count) for count in counts]
        per_worker = [total / count for total, count in zip(each_step, counts, strict=True)]
        holds.append(max(per_worker) / min(per_worker) < 1.1)
        shown = ", ".join(
            f"{count}: {total / 1e6:,.0f} MB"
            for count, total in zip(counts, each_step, strict=True)
        )
        texts.append(f"{_short(workload)}, a round of steps, by workers: {shown}")
    if not texts:
        evidence.need("ps")
    return judged(all(holds), "; ".join(texts), "asked for: bytes a worker within 10 %")


def r3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload in evidence.values("ring", "workload"):
        shown = []
        for count in (each for each in evidence.values("ring", "num_workers") if each > 1):
            run = evidence.first("ring", workload=workload, num_workers=count)
            worker = run.result.workers[0]
            sent = known(worker.sent_bytes, "what a worker sent") / max(worker.worker_steps, 1)
            ratio = sent / model_bytes(run)
            holds.append(abs(ratio / (2 * (count - 1) / count) - 1) < 0.05)
            shown.append(f"{count}: {ratio:.2f}")
        texts.append(f"{_short(workload)} by workers {', '.join(shown)}")
    if not texts:
        evidence.need("ring")
    reason = "2(N-1)/N: 1.00, 1.50, 1.67 for 2, 4, 6, never past 2; asked for: within 5 % of it"
    return judged(all(holds), f"models a step: {'; '.join(texts)}", reason)


def r4(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload, (said, _) in MODELS.items():
        runs = [each for each in evidence.find("ring", workload=workload) if each.result.workers]
        runs = [each for each in runs if each.result.num_workers > 1]
        if runs:
            ours = model_bytes(runs[0]) / _MIB
            holds.append(abs(ours / said - 1) < 0.02)
            texts.append(f"{_short(workload)} {ours:.1f} MiB (said {said})")
    if not texts:
        evidence.need("ring")
    return judged(all(holds), ", ".join(texts), f"{len(texts)} of {len(MODELS)} models were run")


def r5(evidence: Evidence) -> Judged:
    ratios = []
    for workload in evidence.values("ps", "workload"):
        for count in evidence.values("ps", "num_workers"):
            sync, free = (
                evidence.find("ps", workload=workload, strategy=each, num_workers=count)
                for each in (SYNC, ASYNC)
            )
            if sync and free and count > 1:
                ratios.append(median(of(sync, _step_s)) / median(of(free, _step_s)))
    if ratios:
        measured = f"a step of a worker takes {spread(ratios, '.2f')} times as long in sync"
        return judged(median(ratios) > 1, measured)
    sync, free = (evidence.need("stale", strategy=each, num_workers=3) for each in (SYNC, ASYNC))
    ratio = median(of(sync, _step_s)) / median(of(free, _step_s))
    measured = f"on logistic-mnist a worker's step takes {ratio:.2f} times as long in sync"
    return judged(ratio > 1, measured, "real compute; replayed ps-async is in --full only")


def r6(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for group in ("stale", "stale-resnet20"):
        for count in evidence.values(group, "num_workers") if group == "stale" else (None,):
            tags = {} if count is None else {"num_workers": count}
            runs = {each: evidence.find(group, strategy=each, **tags) for each in (SYNC, ASYNC)}
            if not all(runs.values()):
                continue
            right = {
                name: [100 * each for each in of(found, _accuracy)] for name, found in runs.items()
            }
            stale = median(
                run.result.staleness.mean if run.result.staleness else None for run in runs[ASYNC]
            )
            holds.append(median(right[ASYNC]) < median(right[SYNC]))
            workload = runs[SYNC][0].result.workload
            texts.append(
                f"{workload}, {runs[SYNC][0].result.num_workers} workers: "
                f"{spread(right[ASYNC], '.2f', '%')} with a mean staleness of {stale:.1f}, "
                f"{spread(right[SYNC], '.2f', '%')} in sync"
            )
    if not texts:
        evidence.need("stale")
    reason = "at equal samples async makes as many more updates as there are workers"
    return judged(all(holds), "; ".join(texts), reason)


def r7(evidence: Evidence) -> Judged:
    del evidence
    raise Untestable("when fault injection is there: a run ends when one of its seats fails")


def stale_condition(evidence: Evidence) -> str:
    """When staleness harms, and when it does not (R6, S2)."""
    runs = {each: evidence.need("stale", strategy=each, num_workers=3) for each in (SYNC, ASYNC)}
    losses = {name: median(of(found, _test_loss)) for name, found in runs.items()}
    return (
        f"On logistic-mnist at equal samples the test loss is {losses[ASYNC]:.4f} in async and "
        f"{losses[SYNC]:.4f} in sync. Where a larger number of small updates is what is missing (a "
        "convex model, a small learning rate, 002's sparse rows), async gains more by its updates "
        "than staleness costs it; at a learning rate that is as large as is stable, staleness "
        "costs first."
    )


def model_bytes(run: StoredRun) -> float:
    """How many bytes of gradients a worker of a ring has."""
    buckets = run.result.workers[0].buckets
    if not buckets:
        raise Untestable("the sizes of gradients were not recorded")
    return float(sum(each.num_bytes for each in buckets))


def server_node(run: StoredRun) -> str:
    """Name the node on which the server is."""
    names = [node.name for node in run.result.nodes if "server0" in node.seats]
    if not names:
        raise Untestable("no node of the run has a server")
    return names[0]


def ideal_step_s(run: StoredRun) -> float | None:
    """Say how long a step should take by arithmetic.

    A server's exchange follows the computing. A ring's is taken to hide behind it wholly, though
    the first layers' gradients, which are finished last, cannot: so it is the least there can be.
    """
    link = run.spec.get("cluster", {}).get("link")
    known_model = MODELS.get(run.result.workload)
    if not link or known_model is None:
        return None
    size, rate = known_model
    count, compute_s = run.result.num_workers, run.result.batch_size / rate
    gradient = Gradient(ready_s=compute_s, num_bytes=size * _MIB)
    step, carries = Step(compute_s=compute_s, gradients=(gradient,)), Link(bits_per_s=float(link))
    if run.result.servers:
        return ps_sync_step_s(step, carries, count, separate=True)
    return max(compute_s, carries.seconds(2 * (count - 1) / count * step.num_bytes))


def _from_which_ratio(evidence: Evidence) -> list[str]:
    """Ring's efficiency at six workers by the ratio of compute to communication."""
    found = []
    for run in (*evidence.find("ring", num_workers=6), *evidence.find("links")):
        workload = run.result.workload
        alone = evidence.find("ring", workload=workload, num_workers=1)
        link = run.spec.get("cluster", {}).get("link")
        if not alone or not link:
            continue
        size, rate = MODELS[workload]
        ratio = (run.result.batch_size / rate) / (2 * 5 / 6 * size * _MIB * 8 / float(link))
        speed_up = known(_rate(run), "rate") / known(_rate(alone[0]), "rate")
        found.append((ratio, speed_up / run.result.num_workers))
    near = sorted(ratio for ratio, efficiency in found if efficiency >= _NEAR)
    far = sorted(ratio for ratio, efficiency in found if efficiency < _NEAR)
    if not near:
        return []
    below = f", not at {far[-1]:.2f}" if far else ""
    return [f"ring is near proportional from compute / communication = {near[0]:.2f} on{below}"]


def _speed_up(evidence: Evidence, group: str, workload: str, count: int, **tags: Any) -> float:
    """Over one worker alone, which exchanges nothing: the same for server and ring."""
    several = evidence.need(group, workload=workload, num_workers=count, **tags)
    alone = evidence.need("ring", workload=workload, num_workers=1)
    return median(of(several, _rate)) / median(of(alone, _rate))


def _server_bytes(evidence: Evidence, workload: str, count: int) -> float:
    """What crosses the server's link while every worker makes one step."""
    run = evidence.first("ps", workload=workload, strategy=SYNC, num_workers=count)
    name = server_node(run)
    usage = next(node for node in run.result.nodes if node.name == name)
    total = known(node_bytes(usage), "the traffic of nodes")
    return total / max(run.result.worker_steps / count, 1)


def _rate(run: StoredRun) -> float | None:
    return run.result.samples_per_s


def _step_s(run: StoredRun) -> float | None:
    steps = run.result.worker_steps / run.result.num_workers
    return run.result.train_s / steps if run.result.train_s and steps else None


def _accuracy(run: StoredRun) -> float | None:
    return run.result.test_accuracy


def _test_loss(run: StoredRun) -> float | None:
    return run.result.test_loss


def _short(workload: str) -> str:
    return workload.removesuffix("-cifar10")


CLAIMS: Final[Mapping[str, Callable[[Evidence], Judged]]] = {
    "R1": r1,
    "R2": r2,
    "R3": r3,
    "R4": r4,
    "R5": r5,
    "R6": r6,
    "R7": r7,
}
CONDITIONS: Final[Mapping[str, Callable[[Evidence], str]]] = {"R6 and S2": stale_condition}
