"""Colours: one for a strategy, shades for its variants, and all of them different."""

from paceline import palette


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
