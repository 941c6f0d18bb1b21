"""The claims of `ps-vs-ring`, R1 to R7, and the closed form they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paceline.store.stored import StoredRun
from paceline.studies import measures
from paceline.studies.base import Judged, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import above, known, median, node_bytes, of, spread
from paceline.studies.ring_arithmetic import MIB, NETWORKS
from paceline.studies.ring_links import (
    NEAR,
    RING_BY_LINK,
    SPEED_UP_LINKS,
    at_links,
    from_which_ratio,
    of_network,
)
from paceline.studies.ring_packets import packet_rates
from paceline.studies.ring_spread import (
    Speeds,
    in_plain_words,
    is_limited,
    r2_of_spread,
    spread_speed_up,
)

SYNC: Final = "ps-sync"
ASYNC: Final = "ps-async"


def r1(evidence: Evidence) -> Judged:
    most = max(evidence.planned("ring", "num_workers"), default=0)
    places = at_links(evidence)
    texts, holds, speeds = [], [], []
    for workload in evidence.values("ring", "workload"):
        try:
            ps = _speed_up(evidence, "ps", workload, most, strategy=SYNC)
            ring = _speed_up(evidence, "ring", workload, most)
        except Untestable:
            continue
        holds.append(ps < NEAR * most and ring >= NEAR * most)
        told = f"{_short(workload)}: PS {ps:.2f}, ring {ring:.2f} of {most}"
        if (spread_out := spread_speed_up(evidence, workload, most)) is not None:
            limited = is_limited(evidence, workload, most, strategy=SYNC)
            speeds.append(Speeds(ps, spread_out, ring, _short(workload), limited))
            told += f", PS with {most} servers {spread_out:.2f}"
        here = [each for each in places if each.workload == workload]
        texts.append(f"{told}, {of_network(here)}" if here else told)
    if not texts:
        raise evidence.lacking("ring", num_workers=most)
    reason = (
        f"at 2 Gbit it holds for {sum(holds)} of {len(holds)} networks; near proportional: at "
        f"least {NEAR} of the workers"
    )
    if speeds:
        reason += f"; {in_plain_words(speeds, most)}"
    if ratio := from_which_ratio(places):
        reason += f"; compute / communication: {ratio}"
    if places:
        reason += f"; see table {RING_BY_LINK} and figure {SPEED_UP_LINKS}"
    return judged(all(holds), "; ".join(texts), reason)


def r2(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload in evidence.values("ps", "workload"):
        counts = _several(evidence, "ps", workload=workload, strategy=SYNC)
        if len(counts) < 2:
            continue
        each_step = [_server_bytes(evidence, workload, count) for count in counts]
        per_worker = [total / count for total, count in zip(each_step, counts, strict=True)]
        holds.append(max(per_worker) < 1.1 * min(per_worker))
        shown = ", ".join(
            f"{count}: {total / 1e6:,.0f} MB"
            for count, total in zip(counts, each_step, strict=True)
        )
        texts.append(f"{_short(workload)}, a round of steps, by workers: {shown}")
    if not texts:
        raise evidence.lacking("ps", strategy=SYNC)
    shorts = {workload: _short(workload) for workload in NETWORKS}
    reason = f"criterion: bytes per worker within 10 %{r2_of_spread(evidence, shorts)}"
    return judged(all(holds), "; ".join(texts), reason)


def r3(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload in evidence.values("ring", "workload"):
        shown = []
        for count in _several(evidence, "ring", workload=workload):
            run = evidence.first("ring", workload=workload, num_workers=count)
            worker = run.result.workers[0]
            sent = known(worker.sent_bytes, "what a worker sent") / max(worker.worker_steps, 1)
            ratio = sent / model_bytes(run)
            holds.append(abs(ratio / (2 * (count - 1) / count) - 1) < 0.05)
            shown.append(f"{count}: {ratio:.2f}")
        if shown:
            texts.append(f"{_short(workload)} by workers {', '.join(shown)}")
    if not texts:
        raise evidence.lacking("ring")
    reason = "2(N-1)/N: 1.00, 1.50, 1.67 for 2, 4, 6, never past 2; criterion: within 5 % of it"
    measured = f"models per step: {'; '.join(texts)}"
    try:
        packets = packet_rates(evidence)
    except Untestable as error:
        return judged(all(holds), measured, f"{reason}; packets are not judged: {error}")
    holds.append(packets.judgement == "holds")
    return judged(all(holds), f"{measured}; {packets.measured}", f"{reason}; {packets.reason}")


def r4(evidence: Evidence) -> Judged:
    texts, holds = [], []
    for workload, network in NETWORKS.items():
        runs = [each for each in evidence.find("ring", workload=workload) if each.result.workers]
        runs = [each for each in runs if each.result.num_workers > 1]
        if runs:
            ours = model_bytes(runs[0]) / MIB
            holds.append(abs(ours / network.size_mib - 1) < 0.02)
            texts.append(f"{_short(workload)} {ours:.1f} MiB (said {network.size_mib})")
    if not texts:
        raise evidence.lacking("ring")
    return judged(all(holds), ", ".join(texts), f"{len(texts)} of {len(NETWORKS)} models were run")


def r5(evidence: Evidence) -> Judged:
    ratios, ties, holds = [], 0, []
    for workload in evidence.values("ps", "workload"):
        for count in _several(evidence, "ps", workload=workload):
            sync, free = (
                of(
                    evidence.find("ps", workload=workload, strategy=mode, num_workers=count),
                    _step_s,
                )
                for mode in (SYNC, ASYNC)
            )
            if sync and free:
                is_slower, tie = above(sync, free)
                holds.append(is_slower)
                ties += bool(tie)
                ratios.append(median(sync) / median(free))
    if ratios:
        measured = f"a step of a worker takes {spread(ratios, '.2f')} times as long in sync"
        reason = f"slower in {sum(holds)} of {len(holds)} settings, a tie in {ties}"
        return judged(all(holds), measured, reason)
    sync, free = (
        of(evidence.need("stale", strategy=each, num_workers=3), _step_s) for each in (SYNC, ASYNC)
    )
    is_slower, tie = above(sync, free)
    ratio = median(sync) / median(free)
    measured = f"on logistic-mnist a worker's step takes {ratio:.2f} times as long in sync"
    reason = "real compute; replayed ps-async is in --full only"
    return judged(is_slower, measured, f"{tie}; {reason}" if tie else reason)


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
            wrong = {name: [100 - each for each in found] for name, found in right.items()}
            is_harmed, tie = above(wrong[ASYNC], wrong[SYNC])
            holds.append(is_harmed)
            workload = runs[SYNC][0].result.workload
            texts.append(
                f"{workload}, {runs[SYNC][0].result.num_workers} workers: "
                f"{spread(right[ASYNC], '.2f', '%')} with a mean staleness of {stale:.1f}, "
                f"{spread(right[SYNC], '.2f', '%')} in sync{f', {tie}' if tie else ''}"
            )
    if not texts:
        raise evidence.lacking("stale")
    reason = "at equal samples async makes as many more updates as there are workers"
    return judged(all(holds), "; ".join(texts), reason)


def r7(evidence: Evidence) -> Judged:
    del evidence
    raise Untestable("no worker fails here: `paceline study faults` judges it")


def stale_condition(evidence: Evidence) -> str:
    """When staleness harms, and when it does not (R6, S2)."""
    runs = {each: evidence.need("stale", strategy=each, num_workers=3) for each in (SYNC, ASYNC)}
    losses = {name: of(found, _test_loss) for name, found in runs.items()}
    tie = measures.tie(losses[ASYNC], losses[SYNC])
    made = {name: median(of(found, _updates)) for name, found in runs.items()}
    return (
        f"On logistic-mnist at equal samples the test loss is {spread(losses[ASYNC], '.4f')} in "
        f"async, which made {made[ASYNC]:,.0f} updates, and {spread(losses[SYNC], '.4f')} in sync, "
        f"which made {made[SYNC]:,.0f}{f': {tie}' if tie else ''}. {_by_rate(evidence)}"
    )


def _by_rate(evidence: Evidence) -> str:
    """Say which mode is better at which learning rate."""
    winners, parts = set(), []
    for rate in evidence.values("stale-rate", "lr"):
        runs = [evidence.find("stale-rate", strategy=each, lr=rate) for each in (ASYNC, SYNC)]
        if all(runs):
            free, sync = (of(found, _test_loss) for found in runs)
            winner = _better(free, sync)
            winners.add(winner)
            losses = f"{spread(free, '.4g')} against {spread(sync, '.4g')}"
            parts.append(f"at {rate:g} {f'{winner} is better' if winner else 'a tie'} ({losses})")
    if not parts:
        return "The condition itself, from which learning rate on staleness harms, was not varied."
    told = f"By learning rate: {', '.join(parts)}."
    if not {"async", "sync"} <= winners:
        return told
    return (
        f"{told} While steps are small, more of them outweigh that they are stale (Jin et al., on "
        "sparse "
        "rows); where they are as large as they may be, stale ones of a single mini-batch do worse "
        "than the mean of all workers' (Shi)."
    )


def _better(free: list[float], sync: list[float]) -> str:
    """Name the mode with the lower loss; empty where it is a tie."""
    is_harmed, tie = above(free, sync)
    return "" if tie else "sync" if is_harmed else "async"


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


def _several(evidence: Evidence, group: str, **tags: Any) -> list[int]:
    """Give the numbers of workers, more than one, that were run."""
    counts = evidence.values(group, "num_workers", **tags)
    return sorted(each for each in counts if each > 1)


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


def _updates(run: StoredRun) -> float | None:
    return run.result.global_steps


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
