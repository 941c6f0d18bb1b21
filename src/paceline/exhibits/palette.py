"""One colour and one kind of dash for each line; a strategy has the same ones in every figure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

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
# The same, for what is no strategy: nodes, networks. Yellow is last, being faint on white.
IN_ORDER: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#8c8c8c",
    "#f0e442",
)
OTHERS: Final = ("#b5a800", "#7a5195", "#6b8e23", "#a0522d", "#2f8f9d")
SOLID: Final = (1, 0)
_DASHES: Final[Mapping[str, Sequence[int]]] = {
    "single": (2, 2),
    "ps-async": (8, 3),
    "ps-sync": SOLID,
    "ps-ssp": (8, 3, 2, 3),
    "ring": SOLID,
    "ddp": (5, 2),
    "solo": (3, 3),
}
# What further lines of a colour get that is taken.
_MORE_DASHES: Final = (SOLID, (8, 3), (2, 2), (8, 3, 2, 3), (5, 2), (12, 4), (1, 4))
_NUMBERED: Final = re.compile(r"node(\d+)")


class Look(NamedTuple):
    """How a line is drawn."""

    colour: str
    dash: tuple[int, ...]


def looks(strategies: Mapping[str, str]) -> dict[str, Look]:
    """Give each line, by its label, its strategy's look; several of one strategy get shades.

    What is no strategy of ours has a colour by its place: a node by its number, anything else by
    the order in which it comes. No two lines look the same.
    """
    names = list(dict.fromkeys(strategies.values()))
    own = {name: _own(name) for name in names if name in COLOURS} | _by_place(
        [name for name in names if name not in COLOURS], taken={*names}
    )
    found: dict[str, Look] = {}
    for name in names:
        labels = [label for label, each in strategies.items() if each == name]
        for number, label in enumerate(labels):
            look = own[name]
            shaded = look._replace(colour=_shade(look.colour, number, len(labels)))
            found[label] = _unlike(shaded, set(found.values()))
    return {label: found[label] for label in strategies}


def colours(strategies: Mapping[str, str]) -> dict[str, str]:
    """Give each side, by its label, its colour."""
    return {label: look.colour for label, look in looks(strategies).items()}


def dashes(strategies: Mapping[str, str]) -> dict[str, list[int]]:
    """Give each side its dashes, which tell lines apart where colours do not."""
    return {label: list(look.dash) for label, look in looks(strategies).items()}


def _own(strategy: str) -> Look:
    return Look(COLOURS[strategy], tuple(_DASHES[strategy]))


def _by_place(names: Sequence[str], taken: set[str]) -> dict[str, Look]:
    """Give colours in their order; beside strategies only those that none of these has."""
    used = {COLOURS[name] for name in taken if name in COLOURS}
    free = [each for each in IN_ORDER if each not in used]
    # Beside strategies few colours are left: then others, though not as easy to tell apart.
    shades = (*free, *OTHERS) if used else tuple(free)
    every = list(_combined(shades))
    return {name: every[place % len(every)] for name, place in _places(names).items()}


def _combined(shades: Sequence[str]) -> Iterator[Look]:
    for dash, colour in product(_MORE_DASHES, shades):
        yield Look(colour, dash)


def _places(names: Sequence[str]) -> dict[str, int]:
    """A node's place is its number, whoever else is shown; so it looks the same in all figures."""
    numbers = [_NUMBERED.fullmatch(name) for name in names]
    if all(numbers):
        return {name: int(found[1]) for name, found in zip(names, numbers, strict=True) if found}
    return {name: place for place, name in enumerate(names)}


def _unlike(look: Look, others: set[Look]) -> Look:
    """Give the look itself, or where it is taken the same colour with dashes that are free."""
    free = (look._replace(dash=dash) for dash in (look.dash, *_MORE_DASHES))
    return next((each for each in free if each not in others), look)


def _shade(colour: str, number: int, count: int) -> str:
    """Give shade `number` of `count` of a colour, from a little darker to much lighter."""
    if count == 1:
        return colour
    position = number / (count - 1)
    towards, amount = (0, 0.3 * (1 - 2 * position)) if position < 0.5 else (255, position - 0.5)
    channels = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    mixed = [round(value + (towards - value) * amount) for value in channels]
    return "#" + "".join(f"{value:02x}" for value in mixed)
