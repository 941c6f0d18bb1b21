"""Metrics on the test rows: what they may be called, which way is better, and targets on them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, final

T = TypeVar("T")
Better = Literal["higher", "lower"]

RESERVED: Final = ("time_s", "progress", "samples", "side")
"""Columns that stand beside the metrics wherever evaluations are kept or shown."""
_KNOWN: Final[Mapping[str, Better]] = {"accuracy": "higher", "loss": "lower"}
_SIGNS: Final[Mapping[Better, str]] = {"higher": ">=", "lower": "<="}
_FORM: Final = "not of the form NAME>=VALUE or NAME<=VALUE"


def better_of(own: Mapping[str, Better]) -> dict[str, Better]:
    """Say which way each metric is better, those first by which runs are compared first.

    That is accuracy, then what the workload names itself, then loss.
    """
    return {"accuracy": _KNOWN["accuracy"], **own, "loss": own.get("loss", _KNOWN["loss"])}


def metrics_in(evaluation: Mapping[str, T]) -> dict[str, T]:
    """Give an evaluation's metrics without what stands beside them."""
    return {name: value for name, value in evaluation.items() if name not in RESERVED}


def in_order(names: Iterable[str]) -> list[str]:
    """Put accuracy first and loss last; the others stay as the workload gave them."""
    place = {"accuracy": 0, "loss": 2}
    return sorted(dict.fromkeys(names), key=lambda name: place.get(name, 1))


def written(name: str, value: float) -> str:
    """Write a metric's value as a person reads it."""
    return f"{100 * value:.2f} %" if name == "accuracy" else format(value, form_of([value]))


def form_of(values: Sequence[float]) -> str:
    """Choose how numbers of one kind are written: with four digits of even the smallest kind."""
    largest = max((abs(value) for value in values), default=0.0)
    return ".4f" if largest == 0 or 0.01 <= largest < 1000 else ".4g"


@final
@dataclass(frozen=True)
class Target:
    """A level of a metric that ends a run when it is reached."""

    metric: str
    better: Better
    """`higher`: at least the value; `lower`: at most."""
    value: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `mae<=0.2` or `accuracy>=0.9`; raises `ValueError`."""
        match = re.fullmatch(r"\s*([^<>=]*[^<>=\s])\s*(>=|<=)\s*(\S+)\s*", text)
        if match is None:
            raise ValueError(_FORM)
        name, sign, number = match.groups()
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"{_FORM}: {number!r} is not a number") from None
        if not math.isfinite(value):
            raise ValueError(f"{number} is not finite")
        return cls(name, "higher" if sign == ">=" else "lower", value)

    def is_met(self, metrics: Mapping[str, float]) -> bool:
        """Whether an evaluation reached it; one that has no such metric did not."""
        value = metrics.get(self.metric, math.nan)
        return value >= self.value if self.better == "higher" else value <= self.value

    def __str__(self) -> str:
        return f"{self.metric}{_SIGNS[self.better]}{repr(self.value).removesuffix('.0')}"

    @property
    def words(self) -> str:
        """The same within a sentence: a run gets to `90 % accuracy`."""
        if (self.metric, self.better) == ("accuracy", "higher"):
            return f"{100 * self.value:g} % accuracy"
        return f"{self.metric} {_SIGNS[self.better]} {self.value:g}"


def parse_targets(given: object) -> object:
    """Turn what a spec holds into targets: one text or several, or targets made in Python."""
    each = [given] if isinstance(given, str | Target) else given
    if not isinstance(each, Sequence) or not all(isinstance(one, str | Target) for one in each):
        raise ValueError(_FORM)
    return tuple(Target.parse(one) if isinstance(one, str) else one for one in each)


def targets_text(targets: Iterable[Target]) -> str | None:
    """Write targets that must all be reached as one text; None where there are none."""
    return " and ".join(map(str, targets)) or None


def target_words(text: str) -> str:
    """Say what `targets_text` wrote within a sentence; any other text as it is."""
    try:
        return " and ".join(Target.parse(each).words for each in text.split(" and "))
    except ValueError:
        return text
