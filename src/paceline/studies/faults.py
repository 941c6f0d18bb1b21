"""`faults`: every strategy under every fault; did it finish, how soon, and with which accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paceline.exhibits.values import Column, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts, medians
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import median, of

NOTHING: Final = "nothing"
KILLED: Final = "a worker killed"
LATE: Final = "a late worker"
FAULTS: Final = (
    NOTHING,
    KILLED,
    "two workers killed",
    "killed and restarted",
    "a server killed",
    "a link cut for 5 s",
    "a worker slowed 4 times",
    LATE,
)
_IMPOSSIBLE: Final = (("ddp", "killed and restarted"), ("ddp", LATE))
STRATEGIES: Final = ("ps-async", "ps-ssp", "ps-sync", "ring", "ddp", "single")
FINISHED: Final = "finished"
STARTED_AGAIN: Final = "started again from a checkpoint, finished"
# By how much the accuracy of a disturbed run may be below that of an undisturbed one.
_ONE_POINT: Final = 0.01


def survived(evidence: Evidence) -> Table:
    """What each strategy does under each fault, and what it costs."""
    rows = [
        row
        for strategy in STRATEGIES
        for fault in FAULTS
        if (row := _row(evidence, strategy, fault)) is not None
    ]
    shown = [run for strategy in STRATEGIES for run in evidence.find(NOTHING, strategy=strategy)]
    if not shown:
        raise evidence.lacking(NOTHING)
    seconds: dict[str, Any] = {"unit": "s", "form": ".2f"}
    percent: dict[str, Any] = {"unit": "%", "form": ".2f", "scale": 100.0}
    columns = [
        Column(name="strategy", label="strategy"),
        Column(name="fault", label="fault"),
        Column(name="outcome", label="training"),
        *medians.columns(
            [
                Column(name="known", label="until it was known", **seconds),
                Column(name="updated", label="until the next update", **seconds),
                Column(name="back", label="until a newcomer took part", **seconds),
                Column(name="repeated", label="steps repeated", form=",.0f"),
                Column(name="goodput", label="goodput", unit="%", form=".0f", scale=100.0),
                Column(name="accuracy", label="test accuracy", **percent),
            ]
        ),
        Column(name="lost", label="below undisturbed", unit="points", form=".2f", scale=100.0),
        medians.SEEDS,
    ]
    note = f"{medians.NOTE}Times begin when a fault struck, or a newcomer was started."
    title = "What survives, and what it costs (Shi's open questions)"
    return charts.side_by_side("survived", title, rows, columns, note=note, runs=shown)


def _row(evidence: Evidence, strategy: str, fault: str) -> dict[str, Any] | None:
    """One row; None where this was not planned."""
    runs = evidence.find(fault, strategy=strategy)
    base = {"strategy": strategy, "fault": fault}
    if not runs:
        why = str(evidence.lacking(fault, strategy=strategy))
        planned = strategy in evidence.planned(fault, "strategy")
        outcome = f"did not finish: {why.partition(': ')[2] or why}"
        if (strategy, fault) in _IMPOSSIBLE:
            return {**base, "outcome": "not possible: it takes no worker in", "n": 0}
        return {**base, "outcome": outcome, "n": 0} if planned else None
    accuracy = of(runs, lambda run: run.result.test_accuracy)
    undisturbed = of(evidence.find(NOTHING, strategy=strategy), lambda r: r.result.test_accuracy)
    is_known = bool(accuracy and undisturbed and fault != NOTHING)
    return {
        **base,
        "outcome": STARTED_AGAIN if _are_attempts(runs) else FINISHED,
        **medians.of_seeds(
            known=_times(runs, "detection_s"),
            updated=_times(runs, "update_s"),
            back=_times(runs, "strength_s"),
            repeated=[_repeated(run) for run in runs] if _are_attempts(runs) else [],
            goodput=of(runs, lambda run: run.result.goodput),
            accuracy=accuracy,
        ),
        "lost": median(undisturbed) - median(accuracy) if is_known else None,
        "n": len(runs),
    }


def _are_attempts(runs: Sequence[StoredRun]) -> bool:
    """Whether a loss had all seats of a run started again."""
    return any(run.result.attempts for run in runs)


def _repeated(run: StoredRun) -> float:
    return sum(each.repeated_steps for each in run.result.disturbances)


def _times(runs: Sequence[StoredRun], which: str) -> list[float]:
    """The longest of each run, of several faults at once."""
    told = [[getattr(each, which) for each in run.result.disturbances] for run in runs]
    known = [[seconds for seconds in each if seconds is not None] for each in told]
    return [max(each) for each in known if each]


def r7(evidence: Evidence) -> Judged:
    """Whether the others carried on without a worker that was killed."""
    asked = [each for each in STRATEGIES if each in evidence.planned(KILLED, "strategy")]
    found = {each: evidence.find(KILLED, strategy=each) for each in asked}
    carried_on = [each for each, runs in found.items() if runs and not _are_attempts(runs)]
    again = [each for each, runs in found.items() if _are_attempts(runs)]
    servers = [each for each in asked if each.startswith("ps-")]
    if not asked or not all(evidence.is_settled(KILLED, strategy=each) for each in servers):
        raise evidence.lacking(KILLED)
    lost = [
        f"{each} {-100 * (row['lost'] or 0):+.2f} points of accuracy"
        for each in carried_on
        if (row := _row(evidence, each, KILLED)) is not None and row.get("lost") is not None
    ]
    measured = f"finished without it: {', '.join(carried_on) or 'none'} ({'; '.join(lost)})"
    ended = [each for each in asked if each not in (*carried_on, *again)]
    reasons = [f"ended with it: {', '.join(ended)}"] if ended else []
    reasons += [f"started again from a checkpoint: {', '.join(again)}"] if again else []
    return judged(set(servers) <= set(carried_on), measured, "; ".join(reasons))


def l11(evidence: Evidence) -> Judged:
    """By how much a late worker lifts the rate of updates, where each push is one."""
    found = [rates for run in evidence.need(LATE, strategy="ps-async") if (rates := _rates(run))]
    if not found:
        raise Untestable("no worker that came late took part before the run was over")
    before, after = (median([each[index] for each in found]) for index in (0, 1))
    measured = f"{before:,.1f} updates/s before, {after:,.1f} after, {after / before:.2f} times"
    reason = "3 workers of 2 are 1.5 times as many; how much faster follows from the cores here"
    return judged(after > 1.1 * before, measured, reason)


def _rates(run: StoredRun) -> tuple[float, float] | None:
    """Updates per second before and after the late worker took part."""
    back_s = next((e.back_s for e in run.result.disturbances if e.back_s is not None), None)
    steps, train_s = run.steps.sort("time_s"), run.result.train_s
    if back_s is None or not train_s or back_s >= train_s:
        return None
    earlier = steps.filter(steps["time_s"] <= back_s)["global_steps"].max()
    total = run.result.global_steps
    if not isinstance(earlier, int) or total is None:
        return None
    return earlier / back_s, (total - earlier) / (train_s - back_s)


def outcome(evidence: Evidence) -> str:
    """Answer Shi's two questions from what was measured."""
    rows = [_row(evidence, each, fault) for each in STRATEGIES for fault in FAULTS[1:]]
    told = [row for row in rows if row is not None]
    finished = [row for row in told if row["outcome"] in (FINISHED, STARTED_AGAIN)]
    within = [row for row in finished if (row.get("lost") or 0.0) <= _ONE_POINT]
    if not finished:
        raise evidence.lacking(KILLED)
    return (
        f"What becomes of the model: of {len(told)} combinations of strategy and fault "
        f"{len(finished)} finished, {len(within)} of them at most one point of accuracy below the "
        "undisturbed run. What overcomes the nodes that are gone: servers drop who is gone and "
        "take in who comes; workers of a ring agree on the last complete step and form it again, "
        "and a newcomer takes parameters over from one that lives. What needs every process (ddp, "
        "single) is started again from its newest checkpoint, and repeats the steps since."
    )


STUDY: Final = Study(
    tables={"survived": survived},
    figures={},
    claims={"L11": l11, "R7": r7},
    conditions={"Shi's two questions": outcome},
)
