"""What the runs show, in plain words: who is fastest, who ties, what was lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paceline.reporting.causes import cause
from paceline.reporting.finals import finals
from paceline.reporting.level import Group, Yardstick, groups_of
from paceline.reporting.ranking import Ranked, Ranking, rank, ties
from paceline.reporting.refused import refusals
from paceline.reporting.sides import FROM_MANY, Side, reference_of

# More names than this in a sentence nobody reads.
_MOST_NAMED: Final = 4


def rankings_of(sides: Sequence[Side]) -> list[Ranking]:
    """Rank the sides of each group that has a finished one."""
    return [rank(group) for group in groups_of(sides) if group.finished]


def conclude(sides: Sequence[Side], rankings: Sequence[Ranking] | None = None) -> tuple[str, ...]:
    """Say what the runs show, the most important first.

    Sides of different workloads or devices have sentences of their own.
    """
    rankings = rankings_of(sides) if rankings is None else rankings
    if not rankings:
        return ("No run finished.", *_unfinished(sides))
    groups = [ranking.group for ranking in rankings]
    sentences = [
        *(said for each in rankings for said in _of_group(each, is_one_of=len(rankings))),
        *_apart(groups),
        *_unfinished(sides),
        *_repetitions(groups),
    ]
    return tuple(sentences)


def _of_group(ranking: Ranking, *, is_one_of: int) -> list[str]:
    stick, finished = ranking.stick, ranking.group.finished
    said = [
        *([f"No side got {stick.missed}."] if stick.missed else []),
        *_fastest(ranking),
        *_because(ranking),
        *_best_variants(ranking),
        *_against_one(ranking),
        *finals(finished),
        *refusals(finished),
    ]
    # A side that stands alone is told by its label.
    is_told = is_one_of == 1 or len(finished) == 1
    return said if is_told else [f"{ranking.group.title}: {sentence}" for sentence in said]


def _apart(groups: Sequence[Group]) -> list[str]:
    """Say why some sides are not set against each other."""
    if len(groups) < 2:
        return []
    workloads = len({group.sides[0].shown.result.workload for group in groups})
    what = "workloads" if workloads == len(groups) else "workloads, their settings or devices"
    return [f"Sides of different {what} are not compared with one another."]


def _fastest(ranking: Ranking) -> list[str]:
    """Name the fastest of those that are ranked, and say why the others are not."""
    stick, finished = ranking.stick, ranking.group.finished
    if all(place.measure is None for place in ranking.places):
        return [f"No side got {stick.words}."]
    if len(finished) == 1:
        return [f"{finished[0].label}: {amount(ranking.places[0], stick)} {stick.words}."]
    unranked = _unranked(ranking)
    if not ranking.best:
        return [*_no_winner(ranking), *unranked]
    best, ranked = ranking.best, ranking.ranked
    others = [place for place in ranked if place not in best]
    scope = "Of the sides that can be ranked, " if unranked else ""
    if len(best) > 1:
        names = enumerated([place.side.label for place in best])
        amounts = enumerated([amount(place, stick) for place in best])
        said = f"{scope}{names} tie as fastest {stick.words}: {amounts}, no further apart than "
        said += "the spread" + (f"; {_amounts(others, stick)}" if others else "")
    else:
        said = f"{scope}{best[0].side.label} is fastest {stick.words}: "
        said += f"{amount(best[0], stick)} against {_amounts(others, stick)}"
    return [f"{said}{_missed(ranking)}.", *unranked]


def _missed(ranking: Ranking) -> str:
    missed = [each.side.label for each in ranking.places if each.reason == "not-reached"]
    if not missed:
        return ""
    who = enumerated(missed) if len(missed) <= _MOST_NAMED else f"{len(missed)} others"
    return f"; {who} did not get there"


def _no_winner(ranking: Ranking) -> list[str]:
    """Say that nothing can be concluded, and what was measured where the measure is sound."""
    stick, places = ranking.stick, ranking.places
    got = [place for place in places if place.measure is not None]
    if len(got) == 1 and got[0].reason in {None, "one-run"}:
        return [f"Only {got[0].side.label} got {stick.words}: {amount(got[0], stick)}."]
    said = f"No side can be called fastest {stick.words}"
    if all(place.reason in {"one-run", "not-reached"} for place in places):
        return [f"{said}: one run each, {_amounts(got, stick)}{_missed(ranking)}."]
    return [f"{said}: {_neediest(_kept_out(ranking)).why}."]


def _kept_out(ranking: Ranking) -> list[Ranked]:
    """Those that are not ranked though they got there."""
    return [each for each in ranking.places if each.reason not in {None, "not-reached"}]


def _neediest(places: Sequence[Ranked]) -> Ranked:
    """The one that is furthest from being ranked: what helps it helps the others."""
    return min(places, key=lambda place: place.side.shown.result.train_s or 0.0)


def _unranked(ranking: Ranking) -> list[str]:
    """Say of those that are not ranked why not, and what to do; one sentence per reason."""
    told = []
    kept = _kept_out(ranking)
    reasons = dict.fromkeys(place.reason for place in kept)
    for reason in reasons:
        own = [place for place in kept if place.reason == reason]
        names = enumerated([place.side.label for place in own])
        neediest = _neediest(own)
        remedy = f"{neediest.remedy[:1].upper()}{neediest.remedy[1:]}."
        is_told = len(own) == len(ranking.places)  # by the sentence before
        told.append(remedy if is_told else f"Not ranked: {names}, because {neediest.why}. {remedy}")
    return told


def _because(ranking: Ranking) -> list[str]:
    """Say why the slower ones are, a clause each, taken from their verdicts."""
    best = ranking.best
    if not best:
        return []
    behind = [place.side for place in ranking.ranked if place not in best][:_MOST_NAMED]
    found = [(side.label, cause(side, best[0].side)) for side in behind]
    told = [f"{label} is slower because {why}" for label, why in found if why is not None]
    return [f"{'; '.join(told)}."] if told else []


def _amounts(places: Sequence[Ranked], stick: Yardstick) -> str:
    named = places[:_MOST_NAMED]
    told = [f"{amount(place, stick)} for {place.side.label}" for place in named]
    rest = len(places) - len(named)
    return f"{', '.join(told)}; {rest} others are behind" if rest > 0 else enumerated(told)


def _best_variants(ranking: Ranking) -> list[str]:
    """Name the best of each strategy's variants, where something was varied."""
    told, ranked = [], ranking.ranked
    for strategy in dict.fromkeys(place.side.strategy for place in ranked):
        best, *others = [place for place in ranked if place.side.strategy == strategy]
        if not others:
            continue
        also = [each.side.variant for each in others if _tie(best, each)]
        tied = f" (a tie with {enumerated(also)})" if also else ""
        told.append(f"{best.side.variant} for {strategy} ({amount(best, ranking.stick)}){tied}")
    return [f"Best {ranking.stick.words}: {enumerated(told)}."] if told else []


def _tie(first: Ranked, second: Ranked) -> bool:
    assert first.measure is not None
    assert second.measure is not None
    return ties(first.measure, second.measure)


def _against_one(ranking: Ranking) -> list[str]:
    """Say what more workers gave, by rows per second: of ranked sides against a ranked one."""
    told = [(_gain(place, ranking), place.side) for place in ranking.ranked]
    known = [(gain, side) for gain, side in told if gain is not None]
    gains = sorted(known, key=lambda each: -each[0])
    if not gains:
        return []
    faster = [f"{_times(gain, side)} for {side.label}" for gain, side in gains if gain >= 1]
    slower = [f"{side.label} ({gain:.2f} times)" for gain, side in gains if gain < 1]
    if not faster:
        return [f"No side moves more rows per second than one worker: {enumerated(slower)}."]
    said = f"Rows per second against one worker: {enumerated(faster[:_MOST_NAMED])}"
    return [
        f"{said}; slower than one worker: {enumerated(slower[:_MOST_NAMED])}."
        if slower
        else f"{said}."
    ]


def _gain(place: Ranked, ranking: Ranking) -> float | None:
    """Give a speed-up, where there is one and the side with one worker is ranked too."""
    reference = reference_of(place.side, ranking.group.finished)
    if place.gain is None or place.side.num_workers == 1 or reference is None:
        return None
    return place.gain.median if ranking.of(reference).is_ranked else None


def _times(gain: float, side: Side) -> str:
    """Write a speed-up; of one beyond the number of workers the digits are within the spread."""
    return f"{gain:.2f} times" if gain <= side.num_workers else f"about {side.num_workers} times"


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
    if not counts or counts == {1}:
        return []
    least, most = min(counts), max(counts)
    number = f"{least}" if least == most else f"{least} to {most}"
    but = ", the lowest and the highest run left out," if least >= FROM_MANY else ""
    return [f"Medians of {number} runs each; where their ranges{but} overlap it is called a tie."]


def amount(place: Ranked, stick: Yardstick) -> str:
    """Write a figure with its unit."""
    assert place.measure is not None
    return f"{number(place.measure.median)} {stick.unit}"


def number(value: float) -> str:
    """Write a number so that a reader can compare it with others: about three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def enumerated(parts: Sequence[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
