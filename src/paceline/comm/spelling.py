"""How a word travels: as JSON, read strictly.

A kind that the other end may not say, a field that is missing, unknown or of another type is a
`BadWord`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from paceline.comm.vocabularies import Vocabulary, kind_of
from paceline.comm.words import Word
from paceline.reading import schema


class BadWord(Exception):
    """What came over a line is none of the words that are said there."""


def encode(word: Word) -> bytes:
    """Write a word as it travels."""
    table = {"kind": kind_of(type(word)), **_fields(word)}
    return json.dumps(table, separators=(",", ":"), default=_fields).encode()


def _fields(value: Any) -> dict[str, Any]:
    """Give a dataclass as a table; the values are the encoder's business."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def decode(text: bytes, known: Vocabulary) -> Word:
    """Read a word that came; raises `BadWord` where it is none of those that may come."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadWord(f"no JSON: {error}") from error
    kind = _kind_in(table)
    if kind not in known:
        raise BadWord(f"kind = {kind[:40]!r}: not one of {', '.join(known) or 'none'}")
    try:
        return schema.read(known[kind], table, kind, strict=True)
    except ValueError as error:
        raise BadWord(str(error)) from error


def _kind_in(table: object) -> str:
    """Say of what kind a word says that it is."""
    kind = table.pop("kind", None) if isinstance(table, dict) else None
    return kind if isinstance(kind, str) else "none"
