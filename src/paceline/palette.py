"""One colour and one kind of dash for each strategy, the same in every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# Okabe and Ito's palette, which colour-blind readers can tell apart; grey in the place of black,
# which is not seen on a dark page.
COLOURS: Final[Mapping[str, str]] = {
    "single": "#8c8c8c",
    "ps-async": "#e69f00",
    "ps-sync": "#d55e00",
    "ps-ssp": "#cc79a7",
    "ring": "#0072b2",
    "ddp": "#56b4e9",
    "solo": "#009e73",
}
OTHERS: Final = ("#b5a800", "#7a5195", "#6b8e23", "#a0522d", "#2f8f9d")
_DASHES: Final[Mapping[str, Sequence[int]]] = {
    "single": (2, 2),
    "ps-async": (8, 3),
    "ps-sync": (1, 0),
    "ps-ssp": (8, 3, 2, 3),
    "ring": (1, 0),
    "ddp": (5, 2),
    "solo": (3, 3),
}


def colours(strategies: Mapping[str, str]) -> dict[str, str]:
    """Give each side, by its label, its strategy's colour; several of one strategy get shades."""
    unknown = dict.fromkeys(each for each in strategies.values() if each not in COLOURS)
    own = dict(COLOURS) | {
        name: OTHERS[number % len(OTHERS)] for number, name in enumerate(unknown)
    }
    found: dict[str, str] = {}
    for strategy in dict.fromkeys(strategies.values()):
        labels = [label for label, each in strategies.items() if each == strategy]
        for number, label in enumerate(labels):
            found[label] = _shade(own[strategy], number, len(labels))
    return {label: found[label] for label in strategies}


def dashes(strategies: Mapping[str, str]) -> dict[str, list[int]]:
    """Give each side its strategy's dashes, which tell lines apart where colours do not."""
    return {label: list(_DASHES.get(each, (1, 0))) for label, each in strategies.items()}


def _shade(colour: str, number: int, count: int) -> str:
    """Give shade `number` of `count` of a colour, from a little darker to much lighter."""
    if count == 1:
        return colour
    position = number / (count - 1)
    towards, amount = (0, 0.3 * (1 - 2 * position)) if position < 0.5 else (255, position - 0.5)
    channels = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    mixed = [round(value + (towards - value) * amount) for value in channels]
    return "#" + "".join(f"{value:02x}" for value in mixed)
