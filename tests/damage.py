"""Damages what was written well, so that whoever reads it has something to refuse."""

import random

ODD = (
    *("null", "true", "[]", "{}", '""', "-1", "0", "1e999", "NaN", "1e308", str(2**63), "9" * 400),
    *('"\\ud800"', '"\\u001b[2J"', '"[/bold]"', '"../../x"', "[" * 60 + "]" * 60, '"x.py:Evil"'),
)
# Python's parser of JSON gives up somewhere here; some of what it still reads is too deep to show.
DEEP = range(800, 1010)


def damaged(chance: random.Random, good: bytes, *, is_text: bool = True) -> bytes:
    """Do one thing or a few to it."""
    content = bytearray(good)
    for _ in range(chance.choice((1, 1, 2, 4))):
        content = chance.choice(_TEXT_DAMAGES if is_text else _DAMAGES)(chance, content)
    return bytes(content)


def _flip(chance: random.Random, content: bytearray) -> bytearray:
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return content


def _overwrite(chance: random.Random, content: bytearray) -> bytearray:
    place = chance.randrange(len(content) + 1)
    size = chance.choice((1, 4, 8))
    value = chance.choice((0, 1, 127, 128, 255, chance.randrange(1 << 8 * size)))
    content[place : place + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    return content


def _cut(chance: random.Random, content: bytearray) -> bytearray:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + content[last:] if chance.random() < 0.7 else content[:first]


def _repeat(chance: random.Random, content: bytearray) -> bytearray:
    first = chance.randrange(len(content) + 1)
    last = min(len(content), first + chance.randrange(200))
    return content[:last] + content[first:last] * chance.choice((1, 2, 20)) + content[last:]


def _value(chance: random.Random, content: bytearray) -> bytearray:
    """Put an odd value into the place of one that is there."""
    starts = [at for at, byte in enumerate(content) if byte in b":=,["]
    if not starts:
        return content
    first = chance.choice(starts) + 1
    ends = [at for at in range(first, min(len(content), first + 80)) if content[at] in b",\n}]"]
    last = ends[0] if ends else len(content)
    return content[:first] + _odd(chance).encode() + content[last:]


def _odd(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.05:
        depth = chance.choice(DEEP)
        return "[" * depth + "]" * depth
    return chance.choice(ODD) if kind < 0.8 else str(chance.uniform(-1, 1))


_DAMAGES = (_flip, _flip, _overwrite, _overwrite, _cut, _repeat)
_TEXT_DAMAGES = (_flip, _cut, _repeat, _value, _value, _value, _value)
