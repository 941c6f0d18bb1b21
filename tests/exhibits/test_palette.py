"""Looks of lines: one for a strategy, shades for its variants, and all of them different."""

import pytest

from paceline.exhibits import palette


def test_strategies_have_colours_of_their_own():
    shown = palette.colours({name: name for name in (*palette.COLOURS, "a.py:Mine", "b.py:Mine")})
    assert len(set(shown.values())) == len(shown)
    assert shown["ring"] == palette.COLOURS["ring"]


def test_variants_of_a_strategy_are_shades_of_its_colour():
    sides = {f"ring, batch {batch}": "ring" for batch in (1, 10, 100)} | {"single": "single"}
    shown = palette.colours(sides)
    assert list(shown) == list(sides)
    assert len(set(shown.values())) == 4
    assert shown["ring, batch 10"] == palette.COLOURS["ring"]


def test_nodes_and_networks_come_in_the_order_of_the_palette():
    for names in ([f"node{number}" for number in range(8)], ["alexnet", "vgg", "resnet", "lenet"]):
        shown = palette.colours({name: name for name in names})
        assert tuple(shown.values()) == palette.IN_ORDER[: len(names)]


def test_a_node_looks_the_same_whoever_is_beside_it():
    every = palette.looks({f"node{number}": f"node{number}" for number in range(12)})
    some = palette.looks({"node3": "node3", "node11": "node11"})
    assert some == {name: every[name] for name in some}


@pytest.mark.parametrize(
    "sides",
    [
        {f"node{number}": f"node{number}" for number in range(40)},
        {name: name for name in (*palette.COLOURS, *"abcdefghijkl")},
        {f"{name} {number}": name for name in palette.COLOURS for number in range(8)},
        {f"ring {number}": "ring" for number in range(300)},
    ],
)
def test_no_two_lines_look_the_same(sides):
    assert len(set(palette.looks(sides).values())) == len(sides)
