"""All that is said of what limited a run, as one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self, final

from paceline.outcome.results import Result, Verdict
from paceline.verdict.judge import judge, suggestions_for
from paceline.verdict.parts import Parts, all_parts
from paceline.verdict.resources import Resource, resources_of
from paceline.verdict.suggestions import Suggestion


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """What limited a run: each worker's step in parts, utilisation, what to try next."""

    result: Result
    verdict: Verdict | None
    """What held it up; None where that cannot be told."""
    parts: Mapping[str, Parts]
    """Where the time of each worker went."""
    resources: Sequence[Resource]
    """How much was used of what seats share."""
    suggestions: Sequence[Suggestion]
    """What to try next, what brings most first."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """Judge a run by what was measured of it."""
        return cls(
            result=result,
            verdict=judge(result),
            parts=all_parts(result),
            resources=resources_of(result),
            suggestions=suggestions_for(result),
        )

    @property
    def sentence(self) -> str:
        """The verdict in words; where there is none, why."""
        return _why_none(self.result) if self.verdict is None else self.verdict.sentence

    @property
    def advice(self) -> list[str]:
        """What to try next, in words."""
        if self.suggestions:
            return [f"{tip.gain:4.2f} x  {tip.advice}" for tip in self.suggestions]
        told = self.verdict.suggestion if self.verdict else None
        return [told] if told else []

    def table(self) -> dict[str, Any]:
        """Give all of it as plain values: what `paceline explain --json` prints."""
        return {
            "run": self.result.run,
            "verdict": None if self.verdict is None else dataclasses.asdict(self.verdict),
            "parts": {name: dataclasses.asdict(each) for name, each in self.parts.items()},
            "resources": [dataclasses.asdict(each) for each in self.resources],
            "suggestions": [dataclasses.asdict(each) for each in self.suggestions],
        }

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.advice])

    def __repr__(self) -> str:
        return f"<Explanation: {self.sentence}>"

    def _repr_html_(self) -> str:
        tips = "".join(f"<li>{escape(each)}</li>" for each in self.advice)
        return f"<p>{escape(self.sentence)}</p><ul>{tips}</ul>"


def _why_none(result: Result) -> str:
    if result.status != "finished":
        return "none: the run did not finish"
    steps = min((each.worker_steps for each in result.workers), default=0)
    if any(each.compute_s is None for each in result.workers) and steps:
        return "none: the run recorded no rows (record.steps=false), so where time went is unknown"
    return f"none: {steps} steps per worker are too few for a verdict"
