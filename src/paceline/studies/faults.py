"""`faults`: every strategy under every fault; did it finish, how soon, and with which accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paceline.exhibits.values import Column, Table
from paceline.store.stored import StoredRun
from paceline.studies import charts, medians
from paceline.studies.base import Judged, Study, judged
from paceline.studies.evidence import Evidence, Untestable
from paceline.studies.measures import median, of

NOTHING: Final = "nothing"
KILLED: Final = "a worker killed"
TWO_KILLED: Final = "two workers killed"
RESTARTED: Final = "killed and restarted"
SERVER: Final = "a server killed"
LATE: Final = "a late worker"
FAULTS: Final = (
    NOTHING,
    KILLED,
    TWO_KILLED,
    RESTARTED,
    SERVER,
    "a link cut for 5 s",
    "a worker slowed 4 times",
    LATE,
)
STRATEGIES: Final = ("ps-async", "ps-ssp", "ps-sync", "ring", "ddp", "single")
FINISHED: Final = "finished"
STARTED_AGAIN: Final = "started again from a checkpoint, finished"
# By how much the accuracy of a disturbed run may be below that of an undisturbed one.
_ONE_POINT: Final = 0.01
# Below this an undisturbed run has not learned ten classes, and no fault can cost it anything.
_LEARNED: Final = 0.5
_DOES_NOT_APPLY: Final = {
    **{(each, RESTARTED): f"as {KILLED}: all are started again" for each in ("ddp", "single")},
    **{(each, LATE): "not possible: no worker can join" for each in ("ddp", "single")},
    **{(each, SERVER): "does not apply: it has no server" for each in ("ring", "ddp", "single")},
    ("single", TWO_KILLED): "does not apply: it has one worker",
}
_REMEDIES: Final = (
    "Parameter servers drop a worker that is gone, and take in one that comes. Workers of a ring "
    "agree on the last complete step and form it again; a newcomer takes parameters over from one "
    "that lives. A server that is gone is started again from its newest snapshot while workers "
    "wait, and the updates since are lost. What needs every process (ddp, single) is started again "
    "from its newest checkpoint, and repeats steps."
)


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
                Column(name="undone", label="updates lost by a server", form=",.0f"),
                Column(name="dropped", label="gradients dropped", form=",.0f"),
                Column(name="unseen", label="rows lost", form=",.0f"),
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
    base = {"strategy": strategy, "fault": fault}
    if why_not := _DOES_NOT_APPLY.get((strategy, fault)):
        return {**base, "outcome": why_not, "n": 0}
    runs = evidence.find(fault, strategy=strategy)
    if not runs:
        why = str(evidence.lacking(fault, strategy=strategy))
        planned = strategy in evidence.planned(fault, "strategy")
        outcome = f"did not finish: {why.partition(': ')[2] or why}"
        return {**base, "outcome": outcome, "n": 0} if planned else None
    accuracy = of(runs, lambda run: run.result.test_accuracy)
    undisturbed = of(evidence.find(NOTHING, strategy=strategy), lambda r: r.result.test_accuracy)
    is_known = bool(accuracy and undisturbed and fault != NOTHING)
    return {
        **base,
        "outcome": STARTED_AGAIN if _are_attempts(runs) else FINISHED,
        **medians.of_seeds(
            known=_longest(runs, partial(_since_fault, moment="known_s")),
            updated=_longest(runs, partial(_since_fault, moment="updated_s")),
            back=_longest(runs, lambda run: [each.strength_s for each in run.result.disturbances]),
            repeated=[_repeated(run) for run in runs] if _are_attempts(runs) else [],
            undone=of(runs, _undone),
            dropped=of(runs, _dropped),
            unseen=of(runs, lambda run: run.result.rows_lost),
            goodput=of(runs, lambda run: run.result.goodput),
            accuracy=accuracy,
        ),
        "lost": median(undisturbed) - median(accuracy) if is_known else None,
        "n": len(runs),
    }


def _is_struck(evidence: Evidence, row: Mapping[str, Any]) -> bool:
    """Whether its fault struck; a run of so many updates may be over before."""
    runs = evidence.find(row["fault"], strategy=row["strategy"])
    return any(run.result.disturbances for run in runs)


def _are_attempts(runs: Sequence[StoredRun]) -> bool:
    """Whether a loss had all seats of a run started again."""
    return any(run.result.attempts for run in runs)


def _repeated(run: StoredRun) -> float:
    return sum(each.repeated_steps for each in run.result.disturbances)


def _undone(run: StoredRun) -> int | None:
    """How many updates a server lost; None where none went back to its snapshot."""
    noted = [each for each in run.result.disturbances if not each.goes_along]
    known = [each.updates_lost for each in noted if each.updates_lost is not None]
    return sum(known) if known else None


def _dropped(run: StoredRun) -> int | None:
    """How many gradients came to nothing; None where nothing disturbed it."""
    return run.result.dropped_steps if run.result.disturbances else None


def _longest(
    runs: Sequence[StoredRun], seconds_of: Callable[[StoredRun], list[float | None]]
) -> list[float]:
    """The longest of each run, of several faults at once."""
    known = [[seconds for seconds in seconds_of(run) if seconds is not None] for run in runs]
    return [max(each) for each in known if each]


def _since_fault(run: StoredRun, moment: str) -> list[float | None]:
    """From each fault to a moment of what it disturbed.

    A seat that is lost behind a cut link has an entry of its own, which no fault names: its time
    begins with the fault that struck before it.
    """
    seconds: list[float | None] = []
    struck_s: float | None = None
    for each in sorted(run.result.disturbances, key=lambda noted: noted.struck_s):
        struck_s = each.struck_s if each.fault is not None or struck_s is None else struck_s
        reached_s = getattr(each, moment)
        seconds.append(None if reached_s is None else reached_s - struck_s)
    return seconds


def r7(evidence: Evidence) -> Judged:
    """Whether the others carried on without a worker that was killed."""
    asked = [each for each in STRATEGIES if each in evidence.planned(KILLED, "strategy")]
    found = {each: evidence.find(KILLED, strategy=each) for each in asked}
    carried_on = [each for each, runs in found.items() if runs and not _are_attempts(runs)]
    again = [each for each, runs in found.items() if _are_attempts(runs)]
    servers = [each for each in asked if each.startswith("ps-")]
    if not asked or not all(evidence.is_settled(KILLED, strategy=each) for each in servers):
        raise evidence.lacking(KILLED)
    undisturbed = _undisturbed(evidence)
    lost = [
        f"{each} {-100 * row['lost']:+.2f} points of accuracy from {100 * undisturbed[each]:.1f} %"
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
    """Answer what becomes of the trained model, from what was measured."""
    rows = [_row(evidence, each, fault) for each in STRATEGIES for fault in FAULTS[1:]]
    told = [row for row in rows if row is not None and not _does_not_apply(row)]
    finished = [row for row in told if row["outcome"] in (FINISHED, STARTED_AGAIN)]
    if not finished:
        raise evidence.lacking(KILLED)
    undisturbed = _undisturbed(evidence)
    learned = {each for each, accuracy in undisturbed.items() if accuracy >= _LEARNED}
    missed = [each for each in finished if not _is_struck(evidence, each)]
    judged_rows = [
        each
        for each in finished
        if each["strategy"] in learned and each["lost"] is not None and each not in missed
    ]
    within = [row for row in judged_rows if row["lost"] <= _ONE_POINT]
    below = [row for row in judged_rows if row["lost"] > _ONE_POINT]
    return (
        f"of {len(told)} combinations of strategy and fault "
        f"{len(finished)} finished, {len(within)} of them at most one point of accuracy below the "
        f"undisturbed run ({_shown(undisturbed)}). {_further_below(below)}{_unlearned(undisturbed)}"
        f"{_never_struck(missed)}{_what_is_judged(evidence, len(judged_rows), len(below))}"
    )


def _never_struck(rows: Sequence[Mapping[str, Any]]) -> str:
    named = ", ".join(f"{row['strategy']} ({row['fault']})" for row in rows)
    return f"Over before its fault struck, and so none of these: {named}. " if rows else ""


def _what_is_judged(evidence: Evidence, num_judged: int, num_below: int) -> str:
    """Say what is in the accuracy beside the model; runs of as many updates are judged by it."""
    if not all("steps" in each.fields for each in evidence.plans):
        return (
            "All train for the same time, so what a fault took of it is in the accuracy too"
            f"{_also_lacking(evidence)}; --set steps=N has all make as many updates."
        )
    judgement = "does not hold" if num_below else "holds" if num_judged else "cannot be tested"
    return (
        "All make as many updates, however long that takes: that a fault costs the model at most "
        f"one point {judgement} here."
    )


def _also_lacking(evidence: Evidence) -> str:
    """Say so where not only faults took time from training."""
    is_limited = any(run.result.host_limited for run in evidence.all_runs)
    return ", and so is what this machine lacked" if is_limited else ""


def _further_below(rows: Sequence[Mapping[str, Any]]) -> str:
    """Name what cost the model more, fault by fault."""
    by_fault = {
        fault: ", ".join(
            f"{row['strategy']} {100 * row['lost']:.1f}" for row in rows if row["fault"] == fault
        )
        for fault in FAULTS
    }
    named = [f"{fault} ({lost})" for fault, lost in by_fault.items() if lost]
    return f"Further below, in points: {'; '.join(named)}. " if named else ""


def remedies(evidence: Evidence) -> str:
    """Answer what overcomes the nodes that are gone, and how soon it did."""
    rows = [_row(evidence, each, KILLED) for each in STRATEGIES]
    soon = [
        f"{row['strategy']} {row['updated']:.2f} s"
        for row in rows
        if row is not None and row.get("updated") is not None
    ]
    if not soon:
        raise evidence.lacking(KILLED)
    return f"{_REMEDIES} From the death of a worker to the next update: {', '.join(soon)}."


def in_short(evidence: Evidence) -> Table:
    """Whether training finished, and with which accuracy: a row per strategy."""
    rows: list[dict[str, Any]] = [
        {"strategy": each, **{fault: _cell(evidence, each, fault) for fault in FAULTS}}
        for each in STRATEGIES
    ]
    columns = [Column(name="strategy", label="strategy")]
    columns += [Column(name=fault, label=fault) for fault in FAULTS]
    runs = [run for each in STRATEGIES for run in evidence.find(NOTHING, strategy=each)]
    if not runs:
        raise evidence.lacking(NOTHING)
    note = (
        "Test accuracy, the median of the seeds, where training finished; again: all was started "
        "again from a checkpoint. A dash: it does not apply."
    )
    title = "Did training finish, and with which accuracy?"
    return charts.side_by_side("in-short", title, rows, columns, note=note, runs=runs)


def _cell(evidence: Evidence, strategy: str, fault: str) -> str | None:
    row = _row(evidence, strategy, fault)
    if row is None or _does_not_apply(row):
        return None
    if row.get("accuracy") is None:
        return "did not finish"
    again = ", again" if row["outcome"] == STARTED_AGAIN else ""
    return f"{100 * row['accuracy']:.1f} %{again}"


def _does_not_apply(row: dict[str, Any]) -> bool:
    return (row["strategy"], row["fault"]) in _DOES_NOT_APPLY


def _undisturbed(evidence: Evidence) -> dict[str, float]:
    """The accuracy of each strategy where nothing failed, as far as it is known."""
    found = {each: evidence.find(NOTHING, strategy=each) for each in STRATEGIES}
    known = {each: of(runs, lambda run: run.result.test_accuracy) for each, runs in found.items()}
    return {each: median(accuracy) for each, accuracy in known.items() if accuracy}


def _shown(accuracy: Mapping[str, float]) -> str:
    return ", ".join(f"{each} {100 * value:.1f} %" for each, value in accuracy.items())


def _unlearned(undisturbed: Mapping[str, float]) -> str:
    """Say which strategies did not learn even undisturbed: no row of theirs is a success."""
    names = [each for each, accuracy in undisturbed.items() if accuracy < _LEARNED]
    if not names:
        return ""
    return f"Undisturbed, {', '.join(names)} did not learn: their runs count as none of these. "


STUDY: Final = Study(
    tables={"in-short": in_short, "survived": survived},
    figures={},
    claims={"L11": l11, "R7": r7},
    conditions={
        "What becomes of the trained model": outcome,
        "What overcomes nodes that are offline": remedies,
    },
    conditions_title="Shi's two questions",
)
