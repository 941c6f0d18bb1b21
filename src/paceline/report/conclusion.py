"""What the runs show, in plain words: who is fastest, who ties, what was lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paceline.report.level import Group, Yardstick, groups_of
from paceline.report.sides import Measure, Side, reference_of

# With one run each the spread is not known; a difference of less than this part is called a tie.
UNKNOWN_SPREAD: Final = 0.05
# Accuracies this close are called alike: half a point.
_ALIKE: Final = 0.005
# More names than this in a sentence nobody reads.
_MOST_NAMED: Final = 4


def conclude(sides: Sequence[Side]) -> tuple[str, ...]:
    """Say what the runs show, the most important first.

    Sides of different workloads or devices have sentences of their own.
    """
    groups = [group for group in groups_of(sides) if group.finished]
    if not groups:
        return ("No run finished.", *_unfinished(sides))
    sentences = [
        *(said for group in groups for said in _of_group(group, is_one_of=len(groups))),
        *_apart(groups),
        *_unfinished(sides),
        *_repetitions(groups),
    ]
    return tuple(sentences)


def _of_group(group: Group, *, is_one_of: int) -> list[str]:
    finished = group.finished
    stick = group.stick
    said = [
        *([f"No side got {stick.missed}."] if stick.missed else []),
        *_fastest(finished, stick),
        *_best_variants(finished, stick),
        *_against_one(finished),
        *_accuracies(finished),
    ]
    # A side that stands alone is told by its label.
    is_told = is_one_of == 1 or len(finished) == 1
    return said if is_told else [f"{group.title}: {sentence}" for sentence in said]


def _apart(groups: Sequence[Group]) -> list[str]:
    """Say why some sides are not set against each other."""
    if len(groups) < 2:
        return []
    workloads = len({group.sides[0].shown.result.workload for group in groups})
    what = "workloads" if workloads == len(groups) else "workloads, their settings or devices"
    return [f"Sides of different {what} are not compared with one another."]


def ties(first: Measure, second: Measure) -> bool:
    """Whether two figures differ by less than their spread: the ranges of their runs overlap."""
    if first.count == 1 and second.count == 1:
        difference = abs(first.median - second.median)
        return difference < UNKNOWN_SPREAD * max(first.median, second.median)
    return first.low <= second.high and second.low <= first.high


def _ranked(sides: Sequence[Side], stick: Yardstick) -> list[tuple[Side, Measure]]:
    """Sides that can be measured, the best first."""
    measured = [(side, stick.measure(side)) for side in sides]
    known = [(side, measure) for side, measure in measured if measure is not None]
    sign = 1 if stick.less_is_better else -1
    return sorted(known, key=lambda each: sign * each[1].median)


def _fastest(sides: Sequence[Side], stick: Yardstick) -> list[str]:
    ranked = _ranked(sides, stick)
    missed = [side.label for side in sides if side.label not in {each.label for each, _ in ranked}]
    if not ranked:
        return [f"No side got {stick.words}."]
    if len(sides) == 1:
        return [f"{ranked[0][0].label}: {amount(ranked[0][1], stick)} {stick.words}."]
    best, its = ranked[0]
    equals = [each for each in ranked[1:] if ties(its, each[1])]
    others = [each for each in ranked[1:] if each not in equals]
    if equals:
        names = joined([best.label, *(side.label for side, _ in equals)])
        amounts = joined([amount(each, stick) for _, each in (ranked[0], *equals)])
        said = f"{names} tie as fastest {stick.words}: {amounts}, no further apart than the spread"
        said += f"; {_amounts(others, stick)}" if others else ""
    elif others:
        said = f"{best.label} is fastest {stick.words}: {amount(its, stick)} against "
        said += _amounts(others, stick)
    else:
        said = f"Only {best.label} got {stick.words}: {amount(its, stick)}"
    if missed and (equals or others):
        who = joined(missed) if len(missed) <= _MOST_NAMED else f"{len(missed)} others"
        said += f"; {who} did not get there"
    return [f"{said}."]


def _amounts(ranked: Sequence[tuple[Side, Measure]], stick: Yardstick) -> str:
    named = ranked[:_MOST_NAMED]
    told = [f"{amount(measure, stick)} for {side.label}" for side, measure in named]
    rest = len(ranked) - len(named)
    return f"{', '.join(told)}; {rest} others are behind" if rest > 0 else joined(told)


def _best_variants(sides: Sequence[Side], stick: Yardstick) -> list[str]:
    """Name the best of each strategy's variants, where something was varied."""
    told = []
    for strategy in dict.fromkeys(side.strategy for side in sides):
        own = [side for side in sides if side.strategy == strategy]
        ranked = _ranked(own, stick)
        if len(own) < 2 or not ranked:
            continue
        best, its = ranked[0]
        also = [side.variant for side, measure in ranked[1:] if ties(its, measure)]
        tied = f" (a tie with {joined(also)})" if also else ""
        told.append(f"{best.variant} for {strategy} ({amount(its, stick)}){tied}")
    return [f"Best {stick.words}: {joined(told)}."] if told else []


def _against_one(sides: Sequence[Side]) -> list[str]:
    """Say what more workers gave, by rows a second."""
    gains: list[tuple[float, str]] = []
    for side in sides:
        gain = speed_up(side, sides)
        if gain is not None and side.num_workers > 1:
            gains.append((gain.median, side.label))
    if not gains:
        return []
    gains.sort(reverse=True)
    faster = [f"{gain:.2f} times for {label}" for gain, label in gains if gain >= 1]
    slower = [f"{label} ({gain:.2f} times)" for gain, label in gains if gain < 1]
    if not faster:
        return [f"No side moves more rows a second than one worker: {joined(slower)}."]
    said = f"Rows a second against one worker: {joined(faster[:_MOST_NAMED])}"
    return [
        f"{said}; slower than one worker: {joined(slower[:_MOST_NAMED])}." if slower else f"{said}."
    ]


def speed_up(side: Side, sides: Sequence[Side]) -> Measure | None:
    """Give rows a second against the median of the side with one worker."""
    reference = reference_of(side, sides)
    ours = side.measure(lambda run: run.result.samples_per_s)
    theirs = reference.median(lambda run: run.result.samples_per_s) if reference else None
    if not ours or not theirs:
        return None
    return Measure(
        median=ours.median / theirs,
        low=ours.low / theirs,
        high=ours.high / theirs,
        count=ours.count,
    )


def _accuracies(sides: Sequence[Side]) -> list[str]:
    known = [(side.median(lambda run: run.result.test_accuracy), side) for side in sides]
    ends = sorted(
        ((value, side.label) for value, side in known if value is not None), key=lambda e: e[0]
    )
    if len(ends) < 2:
        return []
    (low, worst), (high, best) = ends[0], ends[-1]
    if high - low < _ALIKE:
        return [f"Final accuracies are alike, {100 * low:.1f} to {100 * high:.1f} %."]
    said = f"Final accuracy goes from {100 * low:.1f} % ({worst}) to {100 * high:.1f} % ({best})"
    return [f"{said}{_hint(sides)}."]


def _hint(sides: Sequence[Side]) -> str:
    """Fewer updates for the same rows learn less at one learning rate: say so."""
    known = [each for each in (side.shown.result.global_steps for side in sides) if each]
    rows = [side.shown.result.samples for side in sides]
    if max(rows) > 1.1 * min(rows):
        return ""
    rates = {repr(side.shown.settings.get("optimizer.lr")) for side in sides}
    scaled = any(side.shown.settings.get("optimizer.lr_scaling") == "linear" for side in sides)
    if not known or scaled or len(rates) > 1 or max(known) < 1.5 * min(known):
        return ""
    return (
        ": at one learning rate those with fewer updates for the same rows learn less "
        "(--lr-scaling linear or --tune-lr compare them fairly)"
    )


def _unfinished(sides: Sequence[Side]) -> list[str]:
    told = []
    for side in sides:
        bad = [run for run in side.runs if not run.is_finished]
        if bad:
            count = f" in {len(bad)} of {len(side.runs)} runs" if len(side.runs) > 1 else ""
            reason = bad[0].result.reason
            status = "was interrupted" if bad[0].result.status == "interrupted" else "failed"
            told.append(f"{side.label} {status}{count}: {reason}.".replace("..", "."))
    return told


def _repetitions(groups: Sequence[Group]) -> list[str]:
    compared = [group.finished for group in groups if len(group.finished) > 1]
    counts = {len(side.finished) for sides in compared for side in sides}
    if not counts:
        return []
    if counts == {1}:
        limit = f"{100 * UNKNOWN_SPREAD:.0f} %"
        said = f"One run each: differences below {limit} are called ties"
        return [f"{said}; --repeat 3 measures the spread."]
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    return [f"Medians of {number} runs each; where their ranges overlap it is called a tie."]


def amount(measure: Measure, stick: Yardstick) -> str:
    """Write a figure with its unit."""
    return f"{number(measure.median)} {stick.unit}"


def number(value: float) -> str:
    """Write a number so that a reader can compare it with others: about three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def joined(parts: Sequence[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
