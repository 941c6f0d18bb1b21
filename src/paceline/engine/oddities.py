"""What a seat says out of turn, or in a way that nobody can use: its failure, not the driver's."""

from __future__ import annotations

from typing import Final

from paceline.comm.vocabularies import kind_of
from paceline.comm.words import Word

UNUSABLE: Final = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""What taking a word raises whose fields hold something else than they should."""


class Odd(Exception):
    """A seat said what it cannot say, or not at this moment."""

    @staticmethod
    def out_of_turn(word: type[Word]) -> Odd:
        return Odd(f"it said {kind_of(word)!r} out of turn")

    @staticmethod
    def unusable(word: Word, error: Exception) -> Odd:
        why = f"{type(error).__name__}: {error}"
        return Odd(f"it said {kind_of(type(word))!r} with what cannot be used ({why})")
