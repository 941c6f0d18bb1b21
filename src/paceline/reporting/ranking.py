"""Which sides a comparison may rank, and why it ranks no others: the one place that decides.

The words in the terminal, the page and `--json` are all made of what `rank` gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, final

from paceline.reporting import remedies
from paceline.reporting.level import Group, Yardstick
from paceline.reporting.sides import Measure, Side, reference_of
from paceline.store.stored import StoredRun

Reason = Literal["host-limited", "not-reached", "short", "impossible", "doubtful", "one-run"]
# Of less training than this, start-up effects and chance decide who is faster.
LEAST_S: Final = 3.0


@final
@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A side in a comparison: its figure, and why it is not ranked, where it is not."""

    side: Side
    measure: Measure | None
    """By the yardstick; None where it did not get there."""
    gain: Measure | None
    """Rows per second against one worker; None where no side has one worker."""
    reason: Reason | None = None
    why: str = ""
    """The reason in words, as the end of a sentence."""
    remedy: str = ""
    """What to do to have it ranked."""

    @property
    def is_ranked(self) -> bool:
        return self.reason is None


@final
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The sides of one group: those that are ranked first, the best of them at the front."""

    group: Group
    places: tuple[Ranked, ...]

    @property
    def stick(self) -> Yardstick:
        return self.group.stick

    @property
    def ranked(self) -> list[Ranked]:
        return [place for place in self.places if place.is_ranked]

    @property
    def best(self) -> list[Ranked]:
        """Who is fastest: several where they tie, none where fewer than two are ranked."""
        ranked = self.ranked
        if len(ranked) < 2:
            return []
        first = _measured(ranked[0])
        return [each for each in ranked if ties(first, _measured(each))]

    @property
    def wants_more(self) -> bool:
        """Whether more repetitions could tell more: a side ran once, or two of them tie."""
        measures = [_measured(place) for place in self.ranked]
        some_tie = any(ties(first, second) for first, second in pairwise(measures))
        return some_tie or any(place.reason == "one-run" for place in self.places)

    def of(self, side: Side) -> Ranked:
        return next(place for place in self.places if place.side is side)

    def table(self) -> list[dict[str, Any]]:
        """Give it as plain values, for JSON."""
        best = self.best
        return [
            {
                "task": self.group.title,
                "side": place.side.label,
                "strategy": place.side.strategy,
                "num_workers": place.side.num_workers,
                "yardstick": self.stick.words,
                "ranked": place.is_ranked,
                "place": _number(place, self.ranked),
                "fastest": place in best,
                "reason": place.reason,
                "why": place.why or None,
                "remedy": place.remedy or None,
                "measure": _plain(place.measure, self.stick.unit),
                "speed_up": _plain(place.gain, "times"),
            }
            for place in self.places
        ]


def rank(group: Group) -> Ranking:
    """Decide of every finished side of a group whether it is ranked, and put them in order."""
    finished = group.finished
    reasons = {id(side): _reason(side, group) for side in finished}
    doubtful = [
        reference_of(side, finished) for side in finished if reasons[id(side)] == "impossible"
    ]
    for reference in doubtful:
        if reference is not None and reasons[id(reference)] is None:
            reasons[id(reference)] = "doubtful"
    places = [_place(side, reasons[id(side)], group) for side in finished]
    sign = 1 if group.stick.less_is_better else -1
    ranked = sorted(
        (each for each in places if each.is_ranked), key=lambda each: sign * _measured(each).median
    )
    return Ranking(group=group, places=(*ranked, *(each for each in places if not each.is_ranked)))


def ties(first: Measure, second: Measure) -> bool:
    """Whether the ranges of two figures overlap: they differ by less than their spread."""
    (low, high), (other_low, other_high) = first.inner, second.inner
    return low <= other_high and other_low <= high


def speed_up(side: Side, sides: Sequence[Side]) -> Measure | None:
    """Give rows per second against the median of the side with one worker."""
    reference = reference_of(side, sides)
    ours, theirs = rows_per_s(side), rows_per_s(reference) if reference else None
    if not ours or not theirs or not theirs.median:
        return None
    return Measure(
        median=ours.median / theirs.median,
        low=ours.low / theirs.median,
        high=ours.high / theirs.median,
        count=ours.count,
    )


def rows_per_s(side: Side) -> Measure | None:
    return side.measure(lambda run: run.result.samples_per_s)


def _reason(side: Side, group: Group) -> Reason | None:
    """Say why a side is not ranked; None: it is."""
    runs = side.finished
    if is_limited(runs):
        return "host-limited"
    measure = group.stick.measure(side)
    if measure is None:
        return "not-reached"
    if _trained_s(runs) < LEAST_S:
        return "short"
    if _is_impossible(side, group.finished):
        return "impossible"
    return "one-run" if measure.count < 2 else None


def is_limited(runs: Sequence[StoredRun]) -> bool:
    """Whether the host limited half of a side's runs or more.

    One of several limits nothing: the median is another's, and the spread has it.
    """
    return 2 * sum(run.result.host_limited for run in runs) >= len(runs)


def _trained_s(runs: Iterable[StoredRun]) -> float:
    """How long the shortest run trained, in seconds of this machine."""
    return min((run.result.train_s or 0.0) * run.result.dilation for run in runs)


def _is_impossible(side: Side, sides: Sequence[Side]) -> bool:
    """Whether a side is faster than its number of workers allows, by more than the spread."""
    reference = reference_of(side, sides)
    if reference is None or reference is side:
        return False
    ours, theirs = rows_per_s(side), rows_per_s(reference)
    return ours is not None and theirs is not None and ours.low > side.num_workers * theirs.high


def _place(side: Side, reason: Reason | None, group: Group) -> Ranked:
    why, remedy = ("", "") if reason is None else _words(side, reason, group)
    return Ranked(
        side=side,
        measure=group.stick.measure(side),
        gain=speed_up(side, group.finished),
        reason=reason,
        why=why,
        remedy=remedy,
    )


def _words(side: Side, reason: Reason, group: Group) -> tuple[str, str]:
    """Say why a side is not ranked, and what to do about it."""
    runs = side.finished
    if reason == "host-limited":
        return remedies.limited(runs)
    if reason == "short":
        return remedies.short(runs, LEAST_S)
    if reason == "impossible":
        why = f"it moved more rows per second than {side.num_workers} workers can, by one worker's"
        return why, remedies.IMPOSSIBLE
    if reason == "doubtful":
        why = "others moved more rows per second than their number of workers allows by its rate"
        return why, remedies.IMPOSSIBLE
    if reason == "one-run":
        return "the spread of one run is unknown", remedies.REPEAT
    return f"it did not get {group.stick.words}", remedies.longer(runs, 2.0)


def _measured(place: Ranked) -> Measure:
    assert place.measure is not None
    return place.measure


def _number(place: Ranked, ranked: Sequence[Ranked]) -> int | None:
    """The place, 1 being the best; those that tie with a better one share its place."""
    if not place.is_ranked:
        return None
    better = [each for each in ranked if not ties(_measured(each), _measured(place))]
    ahead = ranked[: ranked.index(place)]
    return 1 + sum(each in better for each in ahead)


def _plain(measure: Measure | None, unit: str) -> dict[str, Any] | None:
    if measure is None:
        return None
    return {
        "median": measure.median,
        "low": measure.low,
        "high": measure.high,
        "runs": measure.count,
        "unit": unit,
    }
