"""What a wrapped script costs is judged by as many blocks as are wanted, and by no fewer."""

from __future__ import annotations

import time

import scripts


class Side:
    """A script whose blocks take a known time; notes when it had its turn."""

    def __init__(self, wall: float, cpu: float, turns: list[Side]) -> None:
        self.took = wall, cpu
        self.turns = turns

    def block(self, steps: int) -> tuple[float, float]:
        assert steps == 7
        self.turns.append(self)
        return self.took


def blocks(count: int, until: float) -> tuple[list[tuple[float, float]], list[Side]]:
    turns: list[Side] = []
    bare, wrapped = Side(2.0, 3.0, turns), Side(4.0, 4.0, turns)
    return [*scripts.measured(bare, wrapped, 7, count, until)], turns  # type: ignore[arg-type]


def test_time_ends_the_blocks_only_when_there_are_enough():
    late = time.monotonic() - 1.0
    assert len(blocks(50, until=late)[0]) == scripts.LEAST_BLOCKS == 20
    assert len(blocks(24, until=time.monotonic() + 600)[0]) == 24


def test_sides_take_turns_and_bare_stands_over_wrapped():
    ratios, turns = blocks(2, until=time.monotonic() + 600)
    assert ratios == [(0.5, 0.75)] * 2
    first, second = turns[0], turns[1]
    assert first is not second
    assert turns == [first, second, second, first]


def test_a_figure_of_too_few_blocks_is_not_judged(capsys):
    assert not scripts.judged("mlp", [(1.0, 1.0)] * 19)
    said = capsys.readouterr().out
    assert said.count("not judged: n=19, at least 20") == 2
    assert "met" not in said
    assert scripts.judged("mlp", [(1.0, 1.0)] * 20)
    assert "not judged" not in capsys.readouterr().out


def test_both_figures_must_be_what_is_wanted():
    assert not scripts.judged("transformer", [(1.0, 0.9)] * 20)
